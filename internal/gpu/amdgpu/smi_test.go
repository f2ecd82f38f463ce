package amdgpu

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"dcm/internal/gpu"
	"dcm/internal/gpu/amdsmi"
	"dcm/internal/gpu/amdsmi/standin"
	"dcm/internal/gpu/partition"
)

// builder builds dcm-smi once for all tests.
type builder struct {
	once sync.Once
	dir  string
	err  error
}

var smiBuilder builder

func TestMain(m *testing.M) {
	code := m.Run()
	os.RemoveAll(smiBuilder.dir)
	os.Exit(code)
}

func (b *builder) program() (string, error) {
	b.once.Do(func() {
		if b.dir, b.err = os.MkdirTemp(visible(), "dcm-smi-test-"); b.err != nil {
			return
		}
		cmd := exec.Command("go", "build", "-o", b.dir, "dcm/cmd/dcm-smi")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			b.err = fmt.Errorf("%w: %s", err, out)
		}
	})
	return filepath.Join(b.dir, "dcm-smi"), b.err
}

// visible returns the directory for temporary files, or another one if that is below /tmp.
func visible() string {
	if dir := os.TempDir(); strings.HasPrefix(dir, "/var/tmp") {
		return dir
	}
	return "/var/tmp"
}

// smiProgram returns dcm-smi, or skips the test if private mounts are not permitted.
func smiProgram(t testing.TB) string {
	t.Helper()
	// dcm-smi hides /tmp from the library, including the files that a test creates there.
	t.(interface{ Setenv(key, value string) }).Setenv("TMPDIR", visible())
	path, err := smiBuilder.program()
	if err != nil {
		t.Fatalf("cannot build dcm-smi: %v", err)
	}
	if _, err := (SMI{Program: "/bin/true"}).Version(t.Context()); errors.Is(err, unix.EPERM) {
		t.Skip("no mounts of one's own here: needs root or user namespaces")
	}
	return path
}

// smiOn builds a generation of the library's stand-in on the fixture, with its settings.
func smiOn(t testing.TB, f *fixture, g standin.Generation, knobs ...string) SMI {
	t.Helper()
	f.write("sys/module/amdgpu/initstate", "live\n")
	return standinOver(t, f.path("sys"), g, knobs...)
}

// standinOver builds a generation of the library's stand-in on a tree.
func standinOver(t testing.TB, sys string, g standin.Generation, knobs ...string) SMI {
	t.Helper()
	program := smiProgram(t)
	lib, err := standin.Build(t.Context(), t.TempDir(), g)
	if errors.Is(err, standin.ErrNoCompiler) && os.Getenv("DCM_E2E") != "require" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(standin.Readable(sys), standin.Turn(lib, append(knobs, "sys "+sys)...)); err != nil {
		t.Fatal(err)
	}
	return SMI{Program: program, Library: lib}
}

func smiFixture(t testing.TB) *fixture {
	t.Helper()
	smiProgram(t) // sets TMPDIR
	f := newFixture(t)
	f.mi300x(gpuA, "card1")
	f.mi300x(gpuB, "card2")
	f.write(pciFile(gpuA, "unique_id"), "b6a11dbdfff8c2a1\n")
	f.write(pciFile(gpuB, "unique_id"), "b6a11dbdfff8c2a2\n")
	f.function("0000:02:00.0", "030000", "1a03:2000", "ast", "card0")
	return f
}

const gpuA, gpuB = "0000:05:00.0", "0000:26:00.0"

// Without the library the version is the one that the driver's module shows; a driver of the kernel's own
// shows none.
func TestEnrich_DriverVersionOfModule(t *testing.T) {
	for _, version := range []string{"6.19.14.31400000", "6.16.6-2238411.24.04", ""} {
		f := smiFixture(t)
		if version != "" {
			f.write("sys/module/amdgpu/version", version)
		}
		n := whole(f.roots())
		devices, err := n.all.Devices(t.Context())
		f.must(err)
		f.must(n.all.Enrich(t.Context(), devices))
		for _, d := range devices {
			want, source := version, gpu.Sysfs
			if d.Driver != driver || version == "" {
				want, source = "", ""
			}
			if d.DriverVersion != want || d.Source["driver_version"] != source {
				t.Errorf("%s: version %q from %q, want %q from %q", d.Address, d.DriverVersion, d.Source["driver_version"], want, source)
			}
		}
	}
}

func TestEnrich(t *testing.T) {
	for _, g := range standin.Generations() {
		t.Run(g.Name, func(t *testing.T) {
			f := smiFixture(t)
			n := whole(f.roots(), Library(smiOn(t, f, g), false))
			plain, err := n.all.Devices(t.Context())
			f.must(err)
			devices, err := n.all.Devices(t.Context())
			f.must(err)
			f.must(n.all.Enrich(t.Context(), devices))
			want := append([]gpu.Device(nil), plain...)
			for i, serial := range map[int]string{1: "0xB6A11DBDFFF8C2A1", 2: "0xB6A11DBDFFF8C2A2"} {
				w := &want[i]
				w.Name, w.Serial, w.DriverVersion = "AMD Instinct MI300X", serial, "6.10.5"
				w.UUID = "74ff74a1-0000-1000-80a1-1dbdfff8c2a" + fmt.Sprint(i)
				source := make(map[string]string)
				for k, v := range w.Source {
					source[k] = v
				}
				for _, fact := range []string{"name", "serial", "uuid", "driver_version"} {
					source[fact] = "amdsmi " + g.Version
				}
				w.Source = source
			}
			if diff := cmp.Diff(want, devices); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestEnrich_LibraryFails(t *testing.T) {
	for _, c := range []struct {
		knob, kind, text string
	}{
		{"init-status 18", "unusable", "status 18"},
		{"init-abort", "no-answer", "SIGABRT"},
		{"init-segv", "no-answer", "SIGSEGV"},
		{"init-hang", "deadline", "no answer in time"},
		{"bdf-garbage", "garbage", "as a PCI address"},
		{"handles-many", "garbage", "handles"},
	} {
		t.Run(c.knob, func(t *testing.T) {
			f := smiFixture(t)
			smi := smiOn(t, f, standin.Latest(), c.knob)
			smi.Timeout = 2 * time.Second
			n := whole(f.roots(), Library(smi, false))
			devices, err := n.all.Devices(t.Context())
			f.must(err)
			plain, err := n.all.Devices(t.Context())
			f.must(err)
			wantSMIError(t, n.all.Enrich(t.Context(), devices), c.kind, c.text)
			if diff := cmp.Diff(plain, devices); diff != "" {
				t.Errorf("(-sysfs +after):\n%s", diff)
			}
		})
	}
}

func wantSMIError(t *testing.T, err error, kind, text string) {
	t.Helper()
	var failed *SMIError
	if !errors.As(err, &failed) || failed.Kind != kind || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v, want kind %s with %q", err, kind, text)
	}
}

// A hostile program in place of dcm-smi writes invalid replies.
func TestSMI_InvalidReply(t *testing.T) {
	smiProgram(t)
	for _, c := range []struct {
		name, script, kind, text string
	}{
		{"nothing", "exit 0", "garbage", "not JSON"},
		{"a failure", "echo first >&2; echo second >&2; exit 3", "no-answer", "exit status 3: first"},
		{"half a reply", `printf '{"version":"27.1'`, "garbage", "not JSON"},
		{"two replies", `echo '{}{}'`, "garbage", "not JSON"},
		{"no JSON", "echo ok", "garbage", "not JSON"},
		{"a wrong type", `echo '{"gpus":"all"}'`, "garbage", "not JSON"},
		{"output without end", "exec yes", "deadline", "no answer in time"},
		{"a signal", "kill -9 $$", "no-answer", "killed"},
		{"ignoring SIGTERM", "trap '' TERM; while :; do read x </dev/zero; done", "deadline", "no answer in time"},
	} {
		t.Run(c.name, func(t *testing.T) {
			smi := SMI{Program: filepath.Join(t.TempDir(), "dcm-smi"), Timeout: time.Second}
			if err := os.WriteFile(smi.Program, []byte("#!/bin/sh\n"+c.script+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			_, err := smi.Inventory(t.Context())
			wantSMIError(t, err, c.kind, c.text)
		})
	}
	_, err := (SMI{Program: "/nonexistent/dcm-smi"}).Version(t.Context())
	wantSMIError(t, err, "no-program", "no such file")
	_, err = (SMI{Program: smiProgram(t), Library: "/nonexistent/lib.so"}).Version(t.Context())
	wantSMIError(t, err, "not-found", "there is no /nonexistent/lib.so")
}

func TestSMI_ReplyToAnotherRequest(t *testing.T) {
	smiProgram(t)
	smi := SMI{Program: filepath.Join(t.TempDir(), "dcm-smi")}
	script := "#!/bin/sh\n" + `echo '{"set":{"gpu":"0000:26:00.0","mode":"CPX","number":5,"after":"CPX"}}'` + "\n"
	if err := os.WriteFile(smi.Program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := smi.SetCompute(t.Context(), gpuA, partition.CPX)
	wantSMIError(t, err, "garbage", "the reply is for")
}

func TestSMI_LeavesNoFiles(t *testing.T) {
	f := smiFixture(t)
	smi := smiOn(t, f, standin.Find("rocm-6.1.2"), "litter", "set-hang")
	smi.Timeout = time.Second
	before := litter(t)
	if _, err := smi.Inventory(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := smi.SetCompute(t.Context(), gpuA, partition.CPX)
	wantSMIError(t, err, "deadline", "no answer in time")
	if diff := cmp.Diff(before, litter(t)); diff != "" {
		t.Errorf("in /tmp and /dev/shm (-before +after):\n%s", diff)
	}
	if pids := runningFrom(t, smi.Program); len(pids) > 0 {
		t.Errorf("still running: %v", pids)
	}
}

func litter(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("/tmp/rocmsmi_boot_*")
	if err != nil {
		t.Fatal(err)
	}
	mutexes, err := filepath.Glob("/dev/shm/rocm_smi_*")
	if err != nil {
		t.Fatal(err)
	}
	return append(files, mutexes...)
}

// runningFrom lists the processes of a program.
func runningFrom(t *testing.T, program string) []string {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, l := range links {
		if exe, err := os.Readlink(l); err == nil && exe == program {
			out = append(out, l)
		}
	}
	return out
}

func TestSMI_Cancelled(t *testing.T) {
	f := smiFixture(t)
	smi := smiOn(t, f, standin.Latest(), "init-hang")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := smi.Inventory(ctx)
	wantSMIError(t, err, "deadline", "no answer in time")
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %s", took)
	}
}

// The types of the client have all fields of dcm-smi's reply, so that none is lost.
func TestSMI_EveryField(t *testing.T) {
	full := amdsmi.Reply{
		Library: "/l", Version: "27.1.0", Compute: &amdsmi.Known{Known: true}, Memory: &amdsmi.Known{Why: "w"},
		GPUs: []amdsmi.GPU{{Address: gpuA, Name: "n", Vendor: 1, Device: 2, Serial: "s", UUID: "u", Compute: "CPX",
			Memory: "NPS4", Driver: "amdgpu", DriverVersion: "6", Notes: []string{"x"}}},
		Set:   &amdsmi.Set{GPU: gpuA, Mode: "CPX", Number: 5, Function: "f", Before: "SPX", After: "CPX"},
		Error: &amdsmi.Failure{Kind: amdsmi.Refused, Text: "t", Status: 30},
	}
	text, err := json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var got smiReply
	if err := d.Decode(&got); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	var a, b any
	if err := errors.Join(json.Unmarshal(text, &a), json.Unmarshal(again, &b)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(a, b, cmp.FilterPath(func(p cmp.Path) bool {
		return strings.HasSuffix(p.String(), "compute") || strings.HasSuffix(p.GoString(), `["why"]`)
	}, cmp.Ignore())); diff != "" {
		t.Errorf("(-reply +parsed):\n%s", diff)
	}
	request, err := json.Marshal(smiRequest{Do: "set-compute", Library: "/l", GPU: gpuA, Mode: "CPX"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := amdsmi.ParseRequest(request); err != nil {
		t.Error(err)
	}
}
