package amdgpu

import (
	"os"
	"testing"
	"time"

	"dcm/internal/gpu/amdsmi/standin"
	"dcm/internal/testkit/sim"
)

func TestContract_EveryLibraryVersion(t *testing.T) {
	for _, g := range standin.Generations() {
		t.Run(g.Name, func(t *testing.T) {
			if testing.Short() || os.Getenv("DCM_E2E") != "require" && g.Name != "rocm-6.1.2" && g != standin.Latest() {
				t.Skip("skipped: DCM_E2E=require runs every generation")
			}
			contract(t, func(t *testing.T, kind string, o sim.Options) backend {
				t.Helper()
				smiProgram(t) // sets TMPDIR, under which the node is mounted
				b := overSysfs(t, kind, o)
				return b.through(t, standinOver(t, b.sim.Sys, g), g.Name == "towards-6.3")
			})
		})
	}
}

// through returns a copy of the backend that sets modes through the library.
func (b backend) through(t *testing.T, smi SMI, noMemory bool, opts ...Option) backend {
	t.Helper()
	// Each attempt starts a process.
	all := []Option{Modprobe(b.sim.Modprobe), BusyRetry(3*time.Second, 5*time.Millisecond), Library(smi, true)}
	b.node = whole(b.node.roots, append(all, opts...)...)
	return backend{sim: b.sim, node: b.node, set: b.node, library: true, noMemory: noMemory}
}
