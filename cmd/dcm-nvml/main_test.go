package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"dcm/internal/gpu/nvml"
	"dcm/internal/gpu/nvml/standin"
	"dcm/internal/gpu/partition"
	"dcm/internal/worker/call"
)

const first, second partition.Address = "0000:41:00.0", "0000:42:00.0"

// TestMain lets the test binary run as dcm-nvml, so that a crash or hang of the library does not
// affect the tests.
func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == staged {
		fmt.Fprintln(os.Stderr, stage(os.Args[2], os.Args[3], os.Args[4]))
		os.Exit(2)
	}
	if len(os.Args) > 1 && (os.Args[1] == again || os.Args[1] == "--sys") {
		os.Exit(run(os.Args[1:]))
	}
	os.Exit(tests(m))
}

// built is the environment variable with the path of the complete library, which is built once.
const built = "DCM_NVML_TEST_LIBRARY"

func tests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "dcm-nvml-")
	if err != nil {
		return 1
	}
	defer os.RemoveAll(dir)
	os.Setenv(built, "")
	if lib, err := standin.Build(context.Background(), dir); err == nil {
		os.Setenv(built, lib)
	}
	return m.Run()
}

// library builds the stand-in in dir, without the hidden functions.
func library(t *testing.T, dir string, hidden []string) (string, error) {
	lib := filepath.Join(dir, standin.Name)
	if from := os.Getenv(built); from != "" && hidden == nil {
		return lib, os.Link(from, lib)
	}
	return standin.Build(t.Context(), dir, hidden...)
}

// machine is a simulated host with the library's stand-in and two GPUs.
type machine struct {
	t          *testing.T
	lib, state string
	sys, dev   string
	proc       string
}

// node builds a machine of one kind of board, with the library without the functions
// hidden.
func node(t *testing.T, board string, hidden ...string) machine {
	t.Helper()
	dir := t.TempDir()
	lib, err := library(t, dir, hidden)
	if errors.Is(err, standin.ErrNoCompiler) && os.Getenv("DCM_E2E") != "require" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	m := machine{t, lib, standin.StateOf(lib), filepath.Join(dir, "sys"), filepath.Join(dir, "dev"), filepath.Join(dir, "proc")}
	s, err := standin.New("580.82.07", board, first, second)
	if err == nil {
		err = standin.Write(m.state, s)
	}
	if err == nil {
		err = os.MkdirAll(filepath.Join(m.sys, "module/nvidia"), 0o755)
	}
	for _, name := range []string{"nvidia0", "nvidia1", "nvidiactl"} {
		if err == nil {
			err = errors.Join(os.MkdirAll(m.dev, 0o755), os.WriteFile(filepath.Join(m.dev, name), nil, 0o666))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// with returns the machine for use in a subtest.
func (m machine) with(t *testing.T) machine {
	m.t = t
	return m
}

func (m machine) update(change func(s *standin.State)) {
	m.t.Helper()
	if err := standin.Update(m.state, func(s *standin.State) error { change(s); return nil }); err != nil {
		m.t.Fatal(err)
	}
}

func (m machine) turn(knobs ...string) {
	m.t.Helper()
	m.update(func(s *standin.State) { s.Knobs = append(s.Knobs, knobs...) })
}

// ask runs dcm-nvml with one request.
func (m machine) ask(r nvml.Request) nvml.Reply {
	m.t.Helper()
	reply, err := m.within(m.t.Context(), r)
	if err != nil && reply.Error == nil {
		m.t.Fatalf("%+v: %v", r, err)
	}
	return reply
}

func (m machine) within(ctx context.Context, r nvml.Request) (nvml.Reply, error) {
	m.t.Helper()
	if r.Library == "" {
		r.Library = m.lib
	}
	request, err := json.Marshal(r)
	if err != nil {
		m.t.Fatal(err)
	}
	out, err := call.Once(ctx, os.Args[0], request, call.Way{Args: []string{"--sys", m.sys, "--dev", m.dev, "--proc", m.proc}, Attr: call.Group()})
	if len(out) == 0 {
		return nvml.Reply{}, err
	}
	reply, bad := nvml.ParseReply(out)
	if bad != nil {
		m.t.Fatalf("%s: %v", out, bad)
	}
	if (err == nil) != (reply.Error == nil) {
		m.t.Errorf("dcm-nvml ended with %v, but its reply has the error %+v", err, reply.Error)
	}
	return reply, err
}

// mode, fill and clear are changes of the first GPU.
func (m machine) mode(on bool) nvml.Reply {
	m.t.Helper()
	return m.ask(nvml.Request{Do: nvml.Mode, GPU: first, On: &on})
}

func (m machine) clear() nvml.Reply {
	m.t.Helper()
	return m.ask(nvml.Request{Do: nvml.Clear, GPU: first})
}

// fill takes "3g.40gb@4" and "3g.40gb@0=1c.3g.40gb+2c.3g.40gb".
func (m machine) fill(list ...string) nvml.Reply {
	m.t.Helper()
	return m.ask(nvml.Request{Do: nvml.Fill, GPU: first, Instances: instances(m.t, list...)})
}

func instances(t *testing.T, list ...string) []partition.Instance {
	t.Helper()
	var out []partition.Instance
	for _, text := range list {
		what, compute, split := strings.Cut(text, "=")
		profile, start, ok := strings.Cut(what, "@")
		if !ok || len(start) != 1 {
			t.Fatalf("%q", text)
		}
		i := partition.Instance{Profile: profile, Start: int(start[0] - '0')}
		if split {
			i.Compute = strings.Split(compute, ",")
		}
		out = append(out, i)
	}
	return out
}

// there formats the instances of a reply's only GPU as in a fill request; "off"
// without MIG.
func there(reply nvml.Reply) string {
	if len(reply.GPUs) != 1 || reply.GPUs[0].MIG == nil {
		return "nothing"
	}
	g := reply.GPUs[0]
	if !g.MIG.Current {
		return "off"
	}
	var out []string
	for _, i := range g.Instances {
		var compute []string
		for _, c := range i.Compute {
			compute = append(compute, c.Profile)
		}
		text := i.Profile + "@" + string(rune('0'+i.Place.Start))
		if len(compute) != 1 || compute[0] != i.Profile {
			text += "=" + strings.Join(compute, ",")
		}
		out = append(out, text)
	}
	return "on " + strings.Join(out, " ")
}

func (m machine) want(reply nvml.Reply, now string) {
	m.t.Helper()
	if reply.Error != nil {
		m.t.Fatalf("%s: %s", reply.Error.Kind, reply.Error.Text)
	}
	if got := strings.TrimSpace(there(reply)); got != now {
		m.t.Errorf("geometry %q, want %q", got, now)
	}
}

func (m machine) wantError(reply nvml.Reply, kind nvml.Kind, text string) {
	m.t.Helper()
	if reply.Error == nil {
		m.t.Fatalf("no error, want %s with %q; the geometry is %s", kind, text, there(reply))
	}
	if reply.Error.Kind != kind || !strings.Contains(reply.Error.Text, text) {
		m.t.Errorf("error %s %q, want %s with %q", reply.Error.Kind, reply.Error.Text, kind, text)
	}
}

// needsRoot skips a test that must drop capabilities if it does not run as root.
func needsRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, to have capabilities")
	}
}

// soon returns a context with a short timeout, for requests that hang.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	t.Cleanup(cancel)
	return ctx
}

// calls returns the names of the library functions that were called for a GPU.
func (m machine) calls(file string, gpu partition.Address) (out []string) {
	m.t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		m.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[1] == string(gpu) && !slices.Contains(out, f[0]) {
			out = append(out, f[0])
		}
	}
	return out
}
