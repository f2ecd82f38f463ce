package leases

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/exitcode"
)

func TestOneNode(t *testing.T) {
	parts := []runstate.Part{{Name: "a-0", NUMA: 0}, {Name: "a-1", NUMA: 0}, {Name: "b-0", NUMA: 1}, {Name: "c-0", NUMA: -1}}
	for _, tt := range []struct {
		lease string
		node  int
		code  int
	}{
		{"a-0", 0, exitcode.OK}, {"a-0 a-1", 0, exitcode.OK}, {"b-0", 1, exitcode.OK},
		{"a-1 b-0", 0, exitcode.Transient}, {"c-0", 0, exitcode.Permanent}, {"a-0 c-0", 0, exitcode.Permanent}, {"a-0 d-0", 0, exitcode.Permanent},
	} {
		node, err := oneNode(strings.Fields(tt.lease), parts)
		if exitcode.Code(err) != tt.code || node != tt.node {
			t.Errorf("node of %s: got %d, %v; want %d with status %d", tt.lease, node, err, tt.node, tt.code)
		}
	}
}

func TestCheckNodesKnown(t *testing.T) {
	for _, tt := range []struct {
		parts []runstate.Part
		code  int
	}{
		{nil, exitcode.OK}, {[]runstate.Part{{NUMA: -1}, {NUMA: 1}}, exitcode.OK}, {[]runstate.Part{{NUMA: -1}}, exitcode.Permanent},
	} {
		if err := checkNodesKnown(tt.parts); exitcode.Code(err) != tt.code {
			t.Errorf("%+v: got %v, want status %d", tt.parts, err, tt.code)
		}
	}
}

func TestParseCPUs(t *testing.T) {
	for text, want := range map[string]string{"0": "[0]", "0-2,8": "[0 1 2 8]", "8191": "[8191]"} {
		if got, err := parseCPUs(text); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%q: got %v, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "3-1", "-1", "0-", "8192", "0-99999999", "0, 1"} {
		if got, err := parseCPUs(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}

// The kernel of the test has at least NUMA node 0, and no node 1000.
func TestBindToNode(t *testing.T) {
	if _, err := os.Stat("/sys/devices/system/node/node0/cpulist"); err != nil {
		t.Skipf("the kernel has no NUMA nodes: %v", err)
	}
	failed := make(chan error)
	inThread := func(do func() error) error { // a locked thread ends with its goroutine, and its binding with it
		go func() {
			runtime.LockOSThread()
			failed <- do()
		}()
		return <-failed
	}
	root := t.TempDir()
	node := func(n int, cpus string) {
		dir := filepath.Join(root, "sys/devices/system/node", fmt.Sprintf("node%d", n))
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "cpulist"), []byte(cpus), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	h := &host.Host{Root: root}
	var own unix.CPUSet
	if err := unix.SchedGetaffinity(0, &own); err != nil {
		t.Fatal(err)
	}
	first := 0
	for !own.IsSet(first) {
		first++
	}
	node(0, fmt.Sprintf("%d,8000-8191\n", first))
	node(1, "8000-8191\n")
	node(1000, fmt.Sprintf("%d\n", first))
	err := inThread(func() error {
		if err := bindToNode(h, 0); errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
			t.Logf("memory policies are not permitted here: %v", err)
		} else if err != nil {
			return err
		}
		status, err := os.ReadFile("/proc/thread-self/status")
		if err == nil && !strings.Contains(string(status), fmt.Sprintf("\nCpus_allowed_list:\t%d\n", first)) {
			err = fmt.Errorf("processors of the thread: want only %d in %s", first, status)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	for n, why := range map[int]string{1: "none of them is available", 1000: "no memory", 2: "cannot read the processors"} {
		if err := inThread(func() error { return bindToNode(h, n) }); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("node %d: got %v, want %q", n, err, why)
		}
	}
}
