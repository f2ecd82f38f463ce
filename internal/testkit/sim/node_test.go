package sim

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"dcm/internal/gpu/partition"
)

const first, second = partition.Address("0000:05:00.0"), partition.Address("0000:26:00.0")

func newNode(t *testing.T, kind string, o Options) *Node {
	t.Helper()
	k, err := LookupKind(kind)
	if err != nil {
		t.Fatal(err)
	}
	return New(k, o)
}

// expect fails the test on another answer.
func expect(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func modes(n *Node) map[partition.Address]partition.Mode {
	out := make(map[partition.Address]partition.Mode)
	for _, g := range n.State().GPUs {
		out[g.Address] = g.Mode()
	}
	return out
}

func TestNode_MemoryRequest(t *testing.T) {
	ctx := t.Context()
	n := newNode(t, "mi300x-2x4", Options{})
	expect(t, "request", n.SetMemory(ctx, first, "NPS4"), nil)
	expect(t, "compute for the memory mode to come", n.SetCompute(ctx, first, "CPX"), nil)
	expect(t, "writing the current mode", n.SetMemory(ctx, first, "NPS1"), nil)
	for a, m := range modes(n) {
		if m.Memory != partition.NPS1 {
			t.Errorf("%s is in %s before the reload", a, m)
		}
	}
	expect(t, "unload", n.Unload(ctx), nil)
	expect(t, "load", n.Load(ctx, Parameters{}), nil)
	for i, g := range n.State().GPUs {
		want := partition.Mode{Compute: partition.CPX, Memory: partition.NPS4}
		if i >= 4 { // the other hive
			want = partition.Mode{Compute: partition.SPX, Memory: partition.NPS1}
		}
		if g.Mode() != want || g.Pending != "" {
			t.Errorf("%s: got %s, pending %q, want %s", g.Address, g.Mode(), g.Pending, want)
		}
	}
}

func TestNode_BusyGPU(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const settleDelay = 2 * time.Second
		ctx := t.Context()
		n := newNode(t, "mi300x-8", Options{Settle: settleDelay})
		render := n.find(first)
		kfd, err := openKFD(n, 10)
		expect(t, "open kfd", err, nil)
		expect(t, "with kfd held", n.SetCompute(ctx, second, "CPX"), syscall.EBUSY)
		expect(t, "unload", n.Unload(ctx), syscall.EBUSY)
		kfd.Close()
		kfd.Close()
		expect(t, "right after kfd", n.SetCompute(ctx, second, "CPX"), syscall.EBUSY)
		<-time.After(settleDelay)
		expect(t, "settled", n.SetCompute(ctx, second, "CPX"), nil)

		drm, err := openDRM(n, render, render.minors[0], 11)
		expect(t, "open render node", err, nil)
		expect(t, "with its render node held", n.SetCompute(ctx, first, "CPX"), syscall.EBUSY)
		expect(t, "with another's render node held", n.SetCompute(ctx, second, "SPX"), nil)
		drm.Close()
		expect(t, "unload right after", n.Unload(ctx), nil)
	})
}

func TestNode_OldKernelLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		n := newNode(t, "mi300x-8", Options{NodeLock: true, SwitchLatency: time.Second})
		b := n.find(first)
		h, err := openDRM(n, b, b.minors[0], 1)
		expect(t, "open", err, nil)
		expect(t, "another GPU", n.SetCompute(ctx, second, "CPX"), syscall.EBUSY)
		h.Close()
		done := make(chan error)
		go func() { done <- n.SetCompute(ctx, first, "CPX") }()
		synctest.Wait()
		expect(t, "a second switch meanwhile", n.SetCompute(ctx, second, "CPX"), syscall.EBUSY)
		expect(t, "the first", <-done, nil)
	})
}

func TestNode_ConcurrentSwitches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, "mi300x-8", Options{SwitchLatency: time.Second})
		begun, done := time.Now(), make(chan error)
		for _, a := range []partition.Address{first, second} {
			go func() { done <- n.SetCompute(context.Background(), a, "CPX") }()
		}
		synctest.Wait()
		_, err := openKFD(n, 1)
		expect(t, "kfd while it is locked", err, syscall.EINVAL)
		expect(t, "the same GPU again", n.SetCompute(t.Context(), first, "DPX"), syscall.EBUSY)
		expect(t, "unload", n.Unload(t.Context()), syscall.EBUSY)
		expect(t, "one", <-done, nil)
		expect(t, "other", <-done, nil)
		if took := time.Since(begun); took != time.Second {
			t.Errorf("two switches of one second took %v together", took)
		}
	})
}

func TestNode_UnloadedDriver(t *testing.T) {
	ctx := t.Context()
	n := newNode(t, "mi300x-8", Options{})
	expect(t, "unload", n.Unload(ctx), nil)
	expect(t, "again", n.Unload(ctx), syscall.ENOENT)
	expect(t, "compute", n.SetCompute(ctx, first, "CPX"), syscall.ENODEV)
	expect(t, "memory", n.SetMemory(ctx, first, "NPS4"), syscall.ENODEV)
	_, err := openKFD(n, 1)
	expect(t, "kfd", err, syscall.ENOENT)
	expect(t, "load", n.Load(ctx, Parameters{Mode: partition.CPX}), nil)
	expect(t, "load again", n.Load(ctx, Parameters{}), nil)
	if got := modes(n)[first].Compute; got != partition.CPX {
		t.Errorf("came up in %s, want the parameter's CPX", got)
	}
	if s := n.State(); s.Loads != 1 || s.Unloads != 1 || s.ComputeWrites != 0 {
		t.Errorf("counted %d loads, %d unloads, %d compute writes, want 1, 1, 0", s.Loads, s.Unloads, s.ComputeWrites)
	}
}

func TestNode_InactivePartitions(t *testing.T) {
	n := newNode(t, "mi300x-8", Options{})
	b := n.find(first)
	for _, test := range []struct {
		mode string
		want int
	}{{"SPX", 1}, {"DPX", 2}, {"QPX", 4}, {"CPX", 8}} {
		expect(t, test.mode, n.SetCompute(t.Context(), first, test.mode), nil)
		for p := range xcps {
			var want error
			if p >= test.want {
				want = syscall.ENOENT
			}
			h, err := openDRM(n, b, minorsOf(n, b, p)[0], 1)
			expect(t, minorsOf(n, b, p)[0].name+" in "+test.mode, err, want)
			if h != nil {
				h.Close()
			}
		}
	}
}

func TestNode_InitialModes(t *testing.T) {
	n := newNode(t, "mi300x-8", Options{Memory: partition.NPS4, Parameters: Parameters{Mode: partition.QPX}})
	want := partition.Mode{Compute: partition.QPX, Memory: partition.NPS4}
	if got := modes(n)[second]; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := newNode(t, "mi300a-4", Options{Memory: partition.NPS4}).State().GPUs[0].Memory; got != partition.NPS1 {
		t.Errorf("an APU booted in %s", got)
	}
}
