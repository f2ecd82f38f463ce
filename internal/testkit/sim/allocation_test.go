package sim

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"

	"dcm/internal/gpu/partition"
)

func TestNode_Allocation(t *testing.T) {
	ctx := t.Context()
	n := newNode(t, "mi300x-8", Options{Allocation: true})
	now := func(want partition.Allocation) {
		t.Helper()
		if got := contents(t, n, gpuDir+string(first)+"/"+allocationFile); got != strings.ToUpper(string(want)) {
			t.Errorf("the file reads %s, want %s", got, want)
		}
	}
	now(partition.Capping)
	expect(t, "unknown mode", n.SetAllocation(ctx, first, "EVEN"), syscall.EINVAL)
	h, err := n.OpenKFD(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "while a process uses the GPU", n.SetAllocation(ctx, first, "all\n"), nil)
	now(partition.All)
	expect(t, "a switch while a process uses the GPU", n.SetCompute(ctx, first, "CPX"), syscall.EBUSY)
	now(partition.All)
	h.Close()
	expect(t, "the mode that it has", n.SetCompute(ctx, first, "SPX"), nil)
	now(partition.All)
	expect(t, "a switch", n.SetCompute(ctx, first, "CPX"), nil)
	now(partition.Capping)
	expect(t, "again", n.SetAllocation(ctx, first, "ALL"), nil)
	reloaded(ctx, t, n)
	now(partition.Capping)
}

func reloaded(ctx context.Context, t *testing.T, n *Node) {
	t.Helper()
	expect(t, "unload", n.Unload(ctx), nil)
	expect(t, "load", n.Load(ctx, Parameters{}), nil)
}

func TestNode_NoAllocationBefore71(t *testing.T) {
	n := newNode(t, "mi300x-8", Options{})
	if _, ok := n.Lookup(pathOf(first) + "/" + allocationFile); ok {
		t.Error("the file exists")
	}
	if a := n.State().GPUs[0].Allocation; a != "" {
		t.Errorf("allocation %s, want none", a)
	}
}
