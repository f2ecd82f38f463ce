package amdgpu

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"dcm/internal/gpu"
	"dcm/internal/testkit/sim"
)

func TestClean(t *testing.T) {
	b := overSysfs(t, "mi300x-8", sim.Options{Cleaner: true})
	c := cleaner{gpu.Roots{Sys: b.sim.Sys}}
	a := gpu.Partitionable(b.devices(t))[0].Address
	if err := c.Clean(t.Context(), a, 0); err != nil || !c.Supports(a) {
		t.Errorf("%v, supported %t", err, c.Supports(a))
	}
	if got := b.sim.State().GPUs[0].Cleaned; !slices.Equal(got, []int{1}) {
		t.Errorf("cleaned %v, want the partition once", got)
	}
	if err := c.Clean(t.Context(), a, 1); !errors.Is(err, unix.EINVAL) || !strings.Contains(err.Error(), "no such partition") {
		t.Errorf("a partition that does not exist: %v", err)
	}
	if err := b.sim.Inject(sim.Fault{Op: sim.OpClean, GPU: a, Errno: sim.Errno(syscall.EPERM)}); err != nil {
		t.Fatal(err)
	}
	if err := c.Clean(t.Context(), a, 0); !errors.Is(err, unix.EPERM) || !strings.Contains(err.Error(), "in reset") {
		t.Errorf("in a reset: %v", err)
	}
}

func TestClean_OlderKernel(t *testing.T) {
	b := overSysfs(t, "mi300x-8", sim.Options{})
	c := cleaner{gpu.Roots{Sys: b.sim.Sys}}
	if a := gpu.Partitionable(b.devices(t))[0].Address; c.Supports(a) {
		t.Error("supported without the file")
	}
}
