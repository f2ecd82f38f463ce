package selftestcmd

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dcm/internal/app/selftest"
	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/testkit/sim"
	"dcm/internal/testkit/sim/simtest"
)

// private are the names on the host of the test.
func private() []string {
	return []string{"secret-node7", "secret-node7.acme.example", "janedoe", "customer-acme1.service", "customer-acme1", "secret-project-x", "research-lease.scope", "quotas-acme", "erikasmith"}
}

// privateHost returns a simulated node on a host with such names.
func privateHost(t *testing.T, kind string) (*host.Host, *simtest.Node) {
	t.Helper()
	node := simtest.Start(t, kind, sim.Options{})
	h := &host.Host{Root: t.TempDir(), Version: "1.2.3"}
	for name, target := range map[string]string{"proc": "/proc", "sys": node.Sys, "dev": node.Dev} {
		if err := os.Symlink(target, filepath.Join(h.Root, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"etc/hostname": "secret-node7.acme.example\n", "etc/passwd": "root:x:0:0::/root:/bin/sh\njanedoe:x:1000:1000::/home/janedoe:/bin/sh\n"} {
		file := filepath.Join(h.Root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return h, node
}

// unpacked returns all files of an archive as one text.
func unpacked(t *testing.T, packed []byte) string {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for files := tar.NewReader(zip); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return all.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(h.Name + "\n" + string(text))
	}
}

func TestPacked_NoNames(t *testing.T) {
	h, _ := privateHost(t, "mi300x-8")
	cfg, err := h.Config()
	if err != nil {
		t.Fatal(err)
	}
	e := newTest(t.Context(), h, cfg, time.Now(), func(event) {})
	if _, err := e.found(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	e.names.addClients([]string{"customer-acme1.service"})
	e.names.addFrom(runstate.State{Holders: []runstate.Holder{{PID: 2133, Command: "secret-project-x", Unit: "research-lease.scope", Lessee: "erikasmith", Devices: []string{"/dev/kfd"}}}})
	e.names.addFrom(map[string][]string{"holders": {"reservation quotas-acme", "secret-project-x[2133]"}})
	const refusal = "GPUs are in use: secret-project-x (pid 2133, customer-acme1.service) has /dev/kfd open; erikasmith on secret-node7 (research-lease.scope, customer-acme1), quotas-acme, in /home/janedoe/x"
	e.check(selftest.Check{At: "CPX/NPS4", What: "the change", Verdict: selftest.Wrong, Text: refusal, Named: refusal})
	e.result.Libraries = append(e.result.Libraries, "libamd_smi: opened by janedoe")
	e.profiles = []byte("# for customer-acme1\n")
	packed, err := packed(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	text := unpacked(t, packed)
	for _, name := range private() {
		if strings.Contains(text, name) {
			t.Errorf("the archive contains %q", name)
		}
	}
	for _, want := range []string{"/result.json\n", "/record.json\n", "/versions.txt\n", "/profiles.toml\n", "vbios_version: 113-M3000100-103", "GPUs are in use: PROCESS (pid 2133, UNIT)", maintainers, `"dcm": "1.2.3"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the archive does not contain %q", want)
		}
	}
}

// The refusal is for the terminal; its hint is about a selection that the test withdraws.
func TestOutcome_HintAndHolders(t *testing.T) {
	h := &host.Host{Root: t.TempDir()}
	state := runstate.State{Phase: runstate.Waiting, Holders: []runstate.Holder{{PID: 7, Command: "secret-project-x", Unit: "customer-acme1.service", Devices: []string{"/dev/kfd"}}}}
	if err := os.MkdirAll(h.Runtime(), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := runstate.StateIn(h.Runtime()).Write(state); err != nil {
		t.Fatal(err)
	}
	e := newTest(t.Context(), h, &config.Config{}, time.Now(), func(event) {})
	got := e.outcome(t.Context(), "CPX/NPS4", "the change", "applied", errors.New("GPUs are in use: secret-project-x (pid 7, customer-acme1.service)\nhint: stop these processes"))
	want := selftest.Check{At: "CPX/NPS4", What: "the change", Verdict: selftest.Wrong, Text: "the GPUs are in use: 1 process with /dev/kfd", Named: "GPUs are in use: secret-project-x (pid 7, customer-acme1.service)"}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := e.outcome(t.Context(), "CPX/NPS4", "the change", "applied", nil); got.Verdict != selftest.Right || got.Text != "applied" {
		t.Errorf("without an error: %+v", got)
	}
}

func TestNames_Kept(t *testing.T) {
	var n names
	n.addFrom(runstate.State{Holders: []runstate.Holder{{Command: "8", Unit: "dcm.service"}, {Command: "python3", Unit: "a.service"}}})
	const text = "8 GPUs of dcm.service; python3 (a.service)"
	if got, want := n.all().Remove(text), "8 GPUs of dcm.service; PROCESS (UNIT)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWithoutProcesses(t *testing.T) {
	const lines = `[ 12.0] amdgpu 0000:05:00.0: amdgpu: Process information: process secret-project-x pid 4711 thread secret-proj:cs0 pid 4712
[ 12.1] amdgpu: CPU: 3 PID: 4711 Comm: secret project Not tainted 6.12.0 #1
[ 12.2] INFO: task secret-project-x:4711 blocked for more than 120 seconds in amdgpu
[ 12.3] kfd kfd: amdgpu: added device 1002:74a1`
	got := string(withoutProcesses([]byte(lines)))
	if strings.Contains(got, "secret") || !strings.Contains(got, "process PROCESS pid 4711") || !strings.Contains(got, "added device 1002:74a1") || strings.Count(got, "\n") != 3 {
		t.Errorf("got\n%s", got)
	}
}

// Each lie of the driver turns a test that only reads red, in the row of the table.
func TestFound_LyingDriver(t *testing.T) {
	const nodes = "sys/devices/virtual/kfd/kfd/topology/nodes"
	show := func(file, text string) sim.Fault { return sim.Fault{Op: sim.OpShow, File: file, Text: text} }
	for name, tt := range map[string]struct {
		fault  sim.Fault
		source selftest.Source
	}{
		"honest":             {sim.Fault{}, ""},
		"memory":             {show(nodes+"/7/mem_banks/0/properties", "size_in_bytes 12884901888"), selftest.Partitions},
		"compute units":      {show(nodes+"/7/properties", "simd_count 76"), selftest.Partitions},
		"slice size":         {show(nodes+"/7/properties", "num_xcc 2"), selftest.Partitions},
		"id 0":               {show(nodes+"/7/gpu_id", "0"), selftest.Partitions},
		"an id twice":        {show(nodes+"/7/gpu_id", "ID-OF-6"), selftest.Partitions},
		"a node is missing":  {sim.Fault{Op: sim.OpShow, File: nodes + "/7", Gone: true}, selftest.Partitions},
		"NUMA is missing":    {sim.Fault{Op: sim.OpShow, File: "numa_node", Gone: true}, selftest.Modes},
		"sum":                {show("mem_info_vram_total", "412316860416"), selftest.Partitions},
		"another minor":      {show(nodes+"/7/properties", "drm_render_minor 200"), selftest.Nodes},
		"another's minor":    {show(nodes+"/7/properties", "drm_render_minor 184"), selftest.Partitions},
		"no render node":     {sim.Fault{Op: sim.OpShow, File: "dev/dri/renderD133", Gone: true}, selftest.Nodes},
		"not openable":       {sim.Fault{Op: sim.OpShow, File: "dev/dri/renderD133", Permissions: 0o400}, selftest.Nodes},
		"writable for users": {sim.Fault{Op: sim.OpShow, File: "current_compute_partition", Permissions: 0o666}, selftest.Nodes},
	} {
		t.Run(name, func(t *testing.T) {
			h, node := privateHost(t, "mi300x-8")
			if err := node.SetCompute(t.Context(), node.State().GPUs[0].Address, "CPX"); err != nil {
				t.Fatal(err)
			}
			if tt.fault.Op != "" {
				if tt.fault.Text == "ID-OF-6" {
					id, err := node.ReadFile(t.Context(), nodes+"/6/gpu_id")
					if err != nil {
						t.Fatal(err)
					}
					tt.fault.Text = strings.TrimSpace(id)
				}
				if !strings.Contains(tt.fault.File, "/") {
					tt.fault.GPU = node.State().GPUs[1].Address
				}
				if err := node.Inject(tt.fault); err != nil {
					t.Fatal(err)
				}
			}
			var row selftest.ModeResult
			var concluded selftest.Outcome
			e := newTest(t.Context(), h, &config.Config{Backend: config.Sysfs}, time.Now(), func(e event) {
				if e.Mode != nil {
					row = *e.Mode
				}
				if e.Outcome != nil {
					concluded = *e.Outcome
				}
			})
			if _, err := e.found(t.Context(), false); err != nil {
				t.Fatal(err)
			}
			if got := row.Of(selftest.Library); got != selftest.NotSeen {
				t.Errorf("library: %q, want %q", got, selftest.NotSeen)
			}
			if err := e.conclude(t.Context(), filepath.Join(t.TempDir(), "x")); (err == nil) != (tt.source == "") {
				t.Errorf("exit status: %v", err)
			}
			if concluded.Failed() != (tt.source != "") {
				t.Errorf("conclusion: %s", concluded.Verdict())
			}
			if tt.source == "" {
				if row.Verdict() != selftest.Right {
					t.Errorf("red: %q", row.Failures())
				}
				return
			}
			if row.Verdict() != selftest.Wrong || row.Of(tt.source) != selftest.Wrong {
				t.Errorf("%s is %q, failures %q", tt.source, row.Of(tt.source), row.Failures())
			}
		})
	}
}
