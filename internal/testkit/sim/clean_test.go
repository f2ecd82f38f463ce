package sim

import (
	"slices"
	"syscall"
	"testing"
)

func TestNode_Clean(t *testing.T) {
	ctx := t.Context()
	n := newNode(t, "mi300x-8", Options{Cleaner: true})
	cleaned := func() []int { return n.State().GPUs[0].Cleaned }
	expect(t, "the only partition", n.Clean(ctx, first, "0\n"), nil)
	expect(t, "a partition that does not exist", n.Clean(ctx, first, "1"), syscall.EINVAL)
	expect(t, "a negative number", n.Clean(ctx, first, "-1"), syscall.EINVAL)
	expect(t, "no number", n.Clean(ctx, first, "all"), syscall.EINVAL)
	expect(t, "a switch", n.SetCompute(ctx, first, "CPX"), nil)
	expect(t, "the last partition, as in C", n.Clean(ctx, first, "0x7"), nil)
	if err := n.Inject(Fault{Op: OpClean, GPU: first, Errno: Errno(syscall.EPERM)}); err != nil {
		t.Fatal(err)
	}
	expect(t, "in a reset", n.Clean(ctx, first, "3"), syscall.EPERM)
	if want := []int{1, 0, 0, 0, 0, 0, 0, 1}; !slices.Equal(cleaned(), want) {
		t.Errorf("cleaned %v, want %v", cleaned(), want)
	}
	if e, ok := n.Lookup(pathOf(first) + "/" + cleanerFile); !ok || e.Mode&0o777 != 0o200 {
		t.Errorf("%s: %+v, want a file that root can only write", cleanerFile, e)
	}
}

func TestNode_Isolation(t *testing.T) {
	ctx := t.Context()
	n := newNode(t, "mi300x-8", Options{Cleaner: true})
	now := func(want string) {
		t.Helper()
		if got := contents(t, n, gpuDir+string(first)+"/"+isolationFile); got != want {
			t.Errorf("the file reads %q, want %q", got, want)
		}
	}
	now("0")
	expect(t, "a switch", n.SetCompute(ctx, first, "DPX"), nil)
	now("0 0")
	expect(t, "too few values", n.SetIsolation(ctx, first, "1"), syscall.EINVAL)
	expect(t, "an unknown value", n.SetIsolation(ctx, first, "1 4"), syscall.EINVAL)
	expect(t, "a value for each", n.SetIsolation(ctx, first, "1 2\n"), nil)
	now("1 2")
	expect(t, "another switch", n.SetCompute(ctx, first, "SPX"), nil)
	now("1") // a switch keeps the values by number
	reloaded(ctx, t, n)
	now("0")
}

func TestNode_NoCleaner(t *testing.T) {
	n := newNode(t, "mi300x-8", Options{})
	for _, file := range []string{cleanerFile, isolationFile} {
		if _, ok := n.Lookup(pathOf(first) + "/" + file); ok {
			t.Errorf("%s exists", file)
		}
	}
}
