package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"dcm/internal/testkit/sim"
	"dcm/internal/testkit/sim/simtest"
)

// call runs the program with its arguments and returns what it said.
func call(t *testing.T, argv ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), argv, &out, &errs)
	return code, out.String(), errs.String()
}

func TestKindsAreListed(t *testing.T) {
	code, out, _ := call(t, "dcm-sim", "kinds")
	for _, k := range sim.Kinds() {
		if !strings.Contains(out, k.Name+" ") {
			t.Errorf("%s is missing in %q", k.Name, out)
		}
	}
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestUsageErrors(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		{"serve --kind mi999x-8", "mi999x-8"},
		{"serve --memory NPS3", "NPS3"},
		{"serve --usage-format 1.5", `"1.5", accepted: 1.1, 1.6`},
		{"fault --op frob --errno EIO", "frob"},
		{"fault --op load --errno EFROB", "EFROB"},
		{"fault --op load --errno EIO --times 0", "found 0, want a number from 1"},
		{"fault --op load --errno EIO --gpu x", "PCI address"},
		{"fault --mount /nonexistent --op load --errno EIO", "no simulated node is mounted"},
		{"state --mount /nonexistent", "no simulated node is mounted"},
		{"allow 05:00.0", "at least one of the flags"},
		{"allow --pid 1 x", "PCI address"},
		{"check cgroup", `invalid argument "cgroup"`},
	} {
		code, _, stderr := call(t, append([]string{"dcm-sim"}, strings.Fields(test.line)...)...)
		if code != 1 || !strings.Contains(stderr, test.want) {
			t.Errorf("%s: exit code %d, %q, want 1 and %q", test.line, code, stderr, test.want)
		}
	}
}

func TestCommands(t *testing.T) {
	n := simtest.Start(t, "mi300x-8", sim.Options{})
	t.Setenv("DCM_SIM", n.Mount)
	kfd, err := os.Open(filepath.Join(n.Dev, "kfd"))
	if err != nil {
		t.Fatal(err)
	}
	defer kfd.Close()
	for _, step := range []struct {
		line   string
		before func()
		code   int
		stderr string
	}{
		{line: "modprobe -r amdgpu", code: 1, stderr: "modprobe: FATAL: Module amdgpu is in use.\n"},
		{line: "modprobe -rq amdgpu", code: 1},
		{line: "modprobe snd_hda_intel"},
		{line: "modprobe -r amdgpu", before: func() { kfd.Close() }},
		{line: "modprobe -r amdgpu"},
		{line: "dcm-sim fault --op load --errno EIO"},
		{line: "modprobe amdgpu", code: 1, stderr: "modprobe: ERROR: could not insert 'amdgpu': Input/output error\n"},
		{line: "modprobe amdgpu user_partt_mode=9", code: 1, stderr: "modprobe: ERROR: could not insert 'amdgpu': Invalid argument\n"},
		{line: "dcm-sim modprobe --mount " + n.Mount + " amdgpu user_partt_mode=4"},
		{line: "dcm-sim fault --gpu 46:00.0 --vanish"},
		{line: "dcm-sim fault --gpu 46:00.0 --appear"},
		{line: "dcm-sim fault --gpu 26:00.0 --vanish"},
		{line: "dcm-sim fault --op read --short --times always"},
		{line: "dcm-sim fault --clear"},
		{line: "dcm-sim allow --unit vllm@3.service 46:00.0 0000:65:00.0"},
		{line: "dcm-sim allow --pid 7 05:00.0"},
		{line: "dcm-sim allow --pid 7"},
		{line: "dcm-sim check node"},
		{line: "dcm-sim check gpu"},
	} {
		if step.before != nil {
			step.before()
		}
		code, _, stderr := call(t, strings.Fields(step.line)...)
		if code != step.code || stderr != step.stderr {
			t.Errorf("%s: exit code %d, %q, want %d, %q", step.line, code, stderr, step.code, step.stderr)
		}
	}
	_, out, _ := call(t, "dcm-sim", "state")
	var s sim.State
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		t.Fatal(err)
	}
	if s.Loads != 1 || s.Unloads != 1 || s.GPUs[0].Compute != "CPX" || !s.GPUs[1].Vanished || s.GPUs[2].Vanished || len(s.Faults) != 0 {
		t.Errorf("ended as %s", out)
	}
	if len(s.Allowed) != 1 || s.Allowed[0].Unit != "vllm@3.service" || len(s.Allowed[0].GPUs) != 2 {
		t.Errorf("rules %+v, want the one for the unit", s.Allowed)
	}
	if code, _, _ := call(t, "dcm-sim", "reset"); code != 0 || n.State().GPUs[1].Vanished {
		t.Errorf("reset ended with %d and %+v", code, n.State().GPUs[1])
	}
}

func TestServe_MountsUntilSignal(t *testing.T) {
	if os.Geteuid() != 0 || unix.Access("/dev/fuse", unix.R_OK|unix.W_OK) != nil {
		t.Skip("skipped: mounting a simulated node needs root and /dev/fuse")
	}
	dir := filepath.Join(t.TempDir(), "made", "by", "serve")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, in := io.Pipe()
	done := make(chan int)
	go func() {
		done <- run(ctx, []string{"dcm-sim", "serve", "--kind", "mi300a-4", "--gpus", "2", "--mount", dir}, in, os.Stderr)
	}()
	line := make([]byte, len("mounted\n"))
	if _, err := io.ReadFull(out, line); err != nil || string(line) != "mounted\n" {
		t.Fatalf("said %q, %v", line, err)
	}
	gpus, err := filepath.Glob(filepath.Join(dir, "sys/bus/pci/devices/*/current_compute_partition"))
	if err != nil || len(gpus) != 2 {
		t.Errorf("GPUs are %v, %v, want 2", gpus, err)
	}
	stop()
	if code := <-done; code != 0 {
		t.Errorf("ended with %d", code)
	}
	if _, err := os.Stat(filepath.Join(dir, "sys")); !os.IsNotExist(err) {
		t.Errorf("after the end: %v, want nothing there", err)
	}
}
