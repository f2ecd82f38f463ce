package amdgpu

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/testkit/sim"
)

// The KFD refuses to show a node that the device cgroup forbids (node_show in kfd_topology.c); the
// modes are files of the PCI device and stay readable.
func TestDescribe_HiddenNodes(t *testing.T) {
	b := overSysfs(t, "mi300x-8-bmc", sim.Options{})
	var functions []*gpu.Function
	for _, d := range b.devices(t) {
		if d.Vendor == partition.AMD {
			d.Compute, d.Parts, d.RenderNodes = "", nil, nil
			functions = append(functions, &gpu.Function{Device: d})
		}
	}
	b.node.inventory.describeAll(functions, nil, unix.EPERM)
	for _, f := range functions {
		if !f.AccessDenied || !errors.Is(f.Err, gpu.ErrAccessDenied) || f.Compute != "SPX" {
			t.Errorf("%s: access denied %t, error %v, mode %s", f.Address, f.AccessDenied, f.Err, f.Compute)
		}
	}
}
