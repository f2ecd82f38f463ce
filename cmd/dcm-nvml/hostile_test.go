package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dcm/internal/gpu/nvml"
	"dcm/internal/gpu/nvml/standin"
	"dcm/internal/gpu/partition"
	"dcm/internal/worker/call"
)

// fails runs a request that gets no reply, and returns the error.
func (m machine) fails(ctx context.Context, r nvml.Request) *call.Error {
	m.t.Helper()
	_, err := m.within(ctx, r)
	failed, ok := err.(*call.Error)
	if !ok {
		m.t.Fatalf("%+v: %v", r, err)
	}
	return failed
}

func TestLibrary_HangsOrAborts(t *testing.T) {
	on := true
	look := nvml.Request{Do: nvml.Look, GPUs: []partition.Address{first}}
	mode := nvml.Request{Do: nvml.Mode, GPU: first, On: &on}
	for _, c := range []struct {
		knob    string
		request nvml.Request
		kind    call.Kind
		text    string
	}{
		{"hang nvmlInit_v2", look, call.Deadline, "no answer in time, killed"},
		{"hang nvmlDeviceSetMigMode", mode, call.Deadline, "no answer in time, killed"},
		{"abort nvmlDeviceGetMigMode", look, call.NoAnswer, "ended without an answer"},
		{"segv nvmlInit_v2", look, call.NoAnswer, "ended without an answer"},
	} {
		t.Run(c.knob, func(t *testing.T) {
			m := node(t, "A30")
			m.turn(c.knob)
			ctx := t.Context()
			if c.kind == call.Deadline {
				ctx = soon(t)
			}
			if failed := m.fails(ctx, c.request); failed.Kind != c.kind || !strings.Contains(failed.Error(), c.text) {
				t.Errorf("%s: %v", failed.Kind, failed)
			}
			// The killed dcm-nvml holds no lock, so the next request succeeds.
			m.update(func(s *standin.State) { s.Knobs = nil })
			m.want(m.look(first), "off")
		})
	}
}

func TestLibrary_MissingFunctions(t *testing.T) {
	for _, c := range []struct {
		name   string
		hidden []string
		do     func(machine) nvml.Reply
		kind   nvml.Kind // "": the call succeeds, with a note
		text   string
	}{
		{"functions that each request needs", []string{"nvmlInit_v2", "nvmlDeviceGetMigMode"}, func(m machine) nvml.Reply { return m.look(first) }, nvml.Unusable, "lacks nvmlInit_v2, nvmlDeviceGetMigMode"},
		{"a function that Mode needs", []string{"nvmlDeviceSetMigMode"}, func(m machine) nvml.Reply { return m.mode(true) }, nvml.Unusable, "lacks nvmlDeviceSetMigMode"},
		{"a function that Fill needs", []string{"nvmlDeviceCreateGpuInstanceWithPlacement"}, func(m machine) nvml.Reply { m.mode(true); return m.fill("1g.6gb@0") }, nvml.Unusable, "lacks nvmlDeviceCreateGpuInstanceWithPlacement"},
		{"a function that Clear needs", []string{"nvmlComputeInstanceDestroy"}, func(m machine) nvml.Reply { return m.clear() }, nvml.Unusable, "lacks nvmlComputeInstanceDestroy"},
		{"a read", []string{"nvmlDeviceGetFieldValues", "nvmlDeviceGetGraphicsRunningProcesses_v3"}, func(m machine) nvml.Reply { return m.look(first) }, "", "lacks nvmlDeviceGetFieldValues"},
		{"names of profiles", []string{"nvmlDeviceGetGpuInstanceProfileInfoV"}, func(m machine) nvml.Reply { return m.look(first) }, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := node(t, "A30", c.hidden...)
			reply := c.do(m)
			if len(reply.Missing) != len(c.hidden) {
				t.Errorf("missing %q, want %q", reply.Missing, c.hidden)
			}
			if c.kind != "" {
				m.wantError(reply, c.kind, c.text)
				return
			}
			if notes := strings.Join(reply.GPUs[0].Notes, "\n"); reply.Error != nil || !strings.Contains(notes, c.text) || len(reply.GPUs[0].Offers()) != 5 {
				t.Errorf("%+v", reply)
			}
		})
	}
}

func TestInit_Errors(t *testing.T) {
	m := node(t, "A30")
	for status, want := range map[string]struct {
		kind nvml.Kind
		text string
	}{
		"9":   {nvml.NoDriver, "the driver is not loaded (9)"},
		"18":  {nvml.WrongPair, "of different versions (18)"},
		"4":   {nvml.NoPermission, "no permission (4)"},
		"12":  {nvml.Unusable, "missing (12)"},
		"15":  {nvml.Lost, "lost"},
		"999": {nvml.Refused, "unknown error (999)"},
	} {
		m.update(func(s *standin.State) { s.Knobs = []string{"fail nvmlInit_v2 " + status} })
		m.wantError(m.look(first), want.kind, want.text)
	}
}

func TestNoLibrary(t *testing.T) {
	m := node(t, "A30")
	notELF := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	if err := os.WriteFile(notELF, []byte("not a library at all, but long enough to have a header"), 0o644); err != nil {
		t.Fatal(err)
	}
	m.wantError(m.ask(nvml.Request{Do: nvml.Look, Library: "/nonexistent/libnvidia-ml.so.1"}), nvml.NotFound, "/nonexistent/libnvidia-ml.so.1 not found")
	m.wantError(m.ask(nvml.Request{Do: nvml.Look, Library: notELF}), nvml.NotLoaded, "cannot load "+notELF)
}

func TestLibrary_UntrustedOwner(t *testing.T) {
	m := node(t, "A30")
	copied := filepath.Join(filepath.Dir(m.lib), "writable.so")
	text, err := os.ReadFile(m.lib)
	if err == nil {
		err = os.WriteFile(copied, text, 0o755)
	}
	if err == nil {
		err = os.Chmod(copied, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	m.wantError(m.ask(nvml.Request{Do: nvml.Look, Library: copied}), nvml.Untrusted, "mode 0777")
}

// The sandbox limits what code of the library can do. The stand-in tries forbidden operations and
// reports the results.
func TestLibrary_Sandbox(t *testing.T) {
	needsRoot(t)
	const none, makes, admin = "0000000000000000", "0000000008000001", "0000000008200001" // CAP_CHOWN is 0, CAP_SYS_ADMIN 21, CAP_MKNOD 27
	const no, yes = "Operation not permitted", "done"
	on := true
	for _, c := range []struct {
		name            string
		request         nvml.Request
		lacks           string
		caps, own, node string
	}{
		{"a look", nvml.Request{Do: nvml.Look, GPUs: []partition.Address{first}}, "", none, no, no},
		{"a look where there are no nodes", nvml.Request{Do: nvml.Look, GPUs: []partition.Address{first}}, "nvidiactl", none, no, no},
		{"a run's look", nvml.Request{Do: nvml.Look, Nodes: true, GPUs: []partition.Address{first}}, "", none, no, no},
		{"a run's look where there are no nodes", nvml.Request{Do: nvml.Look, Nodes: true, GPUs: []partition.Address{first}}, "nvidiactl", makes, no, yes},
		{"a run's look at more GPUs than there are nodes", nvml.Request{Do: nvml.Look, Nodes: true, GPUs: []partition.Address{first, second}}, "nvidia1", makes, no, yes},
		{"a change", nvml.Request{Do: nvml.Mode, GPU: first, On: &on}, "", admin, yes, yes},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := node(t, "A30")
			if c.lacks != "" {
				os.Remove(filepath.Join(m.dev, c.lacks))
			}
			report := filepath.Join(t.TempDir(), "report")
			if err := os.WriteFile(report+".old", nil, 0o644); err != nil {
				t.Fatal(err)
			}
			m.update(func(s *standin.State) { s.Privileged, s.Knobs = true, []string{"confess " + report} })
			if reply := m.ask(c.request); reply.Error != nil {
				t.Fatalf("%+v", reply.Error)
			}
			text, err := os.ReadFile(report)
			if err != nil {
				t.Fatal(err)
			}
			got := make(map[string]string)
			for line := range strings.Lines(string(text)) {
				key, value, _ := strings.Cut(line, ":")
				got[key] = strings.TrimSpace(value)
			}
			for key, value := range map[string]string{
				"CapInh": none, "CapAmb": none, "CapPrm": c.caps, "CapEff": c.caps, "CapBnd": c.caps, "NoNewPrivs": "1", "Seccomp": "2", "user": "0",
				"local socket": c.own, "network": no, "netlink": no, "signal the caller": no, "user namespace": no,
				"node": c.node, "mode": c.node, "owner": c.node, "directory": c.node, "link": c.node, "rename": c.node, "removal": c.node, "disk": no, "type at the terminal": no, "run a program": no,
			} {
				if got[key] != value {
					t.Errorf("%s: %q, want %q", key, got[key], value)
				}
			}
		})
	}
}

// A change without CAP_SYS_ADMIN, which the driver requires, fails.
func TestChange_NoPermission(t *testing.T) {
	m := node(t, "A30")
	m.update(func(s *standin.State) { s.Privileged = true })
	on := true
	request, err := json.Marshal(nvml.Request{Do: nvml.Mode, Library: m.lib, GPU: first, On: &on})
	if err != nil {
		t.Fatal(err)
	}
	way := call.Way{Args: []string{"--sys", m.sys}, Attr: call.Group()}
	if os.Getuid() == 0 {
		way.Args = []string{again, "0", m.sys, m.dev, m.proc, "false", string(request)}
	}
	out, _ := call.Once(t.Context(), os.Args[0], request, way)
	reply, err := nvml.ParseReply(out)
	if err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 { // as root without the sandbox, the change would succeed
		m.wantError(reply, nvml.Unconfined, "capabilities")
		return
	}
	m.wantError(reply, nvml.NoPermission, "nvmlDeviceSetMigMode: no permission")
}

// A GPU is in use if another process has its device node open.
func TestChange_OpenNodeIsInUse(t *testing.T) {
	m := node(t, "H100-80GB")
	dev := filepath.Join(t.TempDir(), "nvidia0")
	f, err := os.Create(dev)
	if err != nil {
		t.Fatal(err)
	}
	m.update(func(s *standin.State) { s.GPUs[0].Node = dev })
	m.wantError(m.mode(true), nvml.InUse, "could not activate it")
	f.Close()
	m.want(m.mode(true), "on")
}
