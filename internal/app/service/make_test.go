package service

import (
	"errors"
	"os"
	"testing"

	"dcm/internal/engine/host"
	"dcm/internal/gpu"
	"dcm/internal/gpu/amdgpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/filelock"
	"dcm/internal/testkit/sim"
	"dcm/internal/testkit/sim/simtest"
)

// One instance is created or destroyed at a time, and none during a run.
func TestLockToMake_OneAtATime(t *testing.T) {
	h := &host.Host{Root: t.TempDir()}
	if err := os.MkdirAll(h.Runtime(), 0o755); err != nil {
		t.Fatal(err)
	}
	release, err := lockToMake(h)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := filelock.TryLock(h.Locks().Make()); !errors.Is(err, filelock.ErrLocked) {
		t.Errorf("second create: got %v, want %v", err, filelock.ErrLocked)
	}
	ended := make(chan func(), 1)
	go func() {
		run, err := lockForRun(h)
		if err != nil {
			t.Error(err)
		}
		ended <- run
	}()
	select {
	case <-ended:
		t.Fatal("a run starts while an instance is created")
	default:
	}
	release()
	run := <-ended
	if _, err := filelock.TryLock(h.Locks().Make()); !errors.Is(err, filelock.ErrLocked) {
		t.Errorf("create during a run: got %v, want %v", err, filelock.ErrLocked)
	}
	run()
}

// The partitions are published from the devices of the last read, unless the GPUs were changed after it.
func TestReadNode_Last(t *testing.T) {
	s := simtest.Start(t, "mi300x-8", sim.Options{})
	roots := gpu.Roots{Sys: s.Sys, Proc: "/proc", Dev: s.Dev}
	n := &readNode{Node: gpu.Open(s.Sys, []gpu.Vendor{amdgpu.Open(roots, amdgpu.FactDir(t.TempDir()))})}
	read, err := n.Devices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	same := func() bool {
		t.Helper()
		last, err := n.last(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return &last[0] == &read[0]
	}
	if !same() {
		t.Error("without a change: want the devices of the last read")
	}
	step := partition.Step{Kind: partition.SwitchCompute, GPU: read[0].Address, From: "SPX", To: "CPX"}
	if err := n.Execute(t.Context(), partition.Steps{step}, func(partition.Step, bool, error) {}); err != nil {
		t.Fatal(err)
	}
	if last, err := n.last(t.Context()); err != nil || last[0].Compute != partition.CPX {
		t.Errorf("after a change: got %s, %v, want CPX", last[0].Compute, err)
	}
}
