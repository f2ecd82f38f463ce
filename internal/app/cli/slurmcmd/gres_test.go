package slurmcmd

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/slurm"
	"dcm/internal/frontends/status"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// mixed is a node with a GPU of AMD, and two of NVIDIA, of which the second one has two MIG instances.
func mixed() inventory {
	const driver, uvm = "/dev/nvidiactl", "/dev/nvidia-uvm"
	name := "NVIDIA H100 80GB HBM3"
	device := func(address string, parts ...gpu.Part) gpu.Device {
		return gpu.Device{GPU: partition.GPU{Address: partition.Address(address)}, Parts: parts}
	}
	part := func(name, gpu, mode, node string) status.Part {
		return status.Part{Name: name, GPU: gpu, Mode: mode, RenderNode: node, NUMA: -1}
	}
	return inventory{
		account: status.Account{
			GPUs: []status.GPU{
				{Address: "a", Vendor: "amd", Offers: status.Offers{Compute: []string{"SPX"}}},
				{Address: "b", Vendor: "nvidia", Name: name}, {Address: "c", Vendor: "nvidia", Name: name}, {Address: "d", Vendor: "nvidia", Name: name, Why: "bound to vfio-pci"}},
			Parts: []status.Part{part("a-0", "a", "SPX/NPS1", "/dev/dri/renderD128"), part("b-0", "b", "MIG off", "/dev/nvidia0"),
				part("c-0", "c", "3g.40gb", "/dev/nvidia-caps/nvidia-cap13"), part("c-4", "c", "3g.40gb", "/dev/nvidia-caps/nvidia-cap22"), part("d-0", "d", "MIG off", "/dev/nvidia2")},
		},
		devices: []gpu.Device{device("a"), device("b", gpu.Part{Node: "/dev/nvidia0", CompanionNodes: []string{driver, uvm}}),
			device("c", gpu.Part{Node: "/dev/nvidia-caps/nvidia-cap13", CompanionNodes: []string{"/dev/nvidia-caps/nvidia-cap12", "/dev/nvidia1", driver, uvm}},
				gpu.Part{Node: "/dev/nvidia-caps/nvidia-cap22", CompanionNodes: []string{"/dev/nvidia-caps/nvidia-cap21", "/dev/nvidia1", driver, uvm}})},
	}
}

func TestGres_MixedHost(t *testing.T) {
	instance := func(part, gi, ci string) slurm.Device {
		return slurm.Device{Type: "h100_80gb_hbm3_3g.40gb", Flags: slurm.NVIDIAFlags, Part: part, Files: []string{"/dev/nvidia1", "/dev/nvidia-caps/nvidia-cap" + gi, "/dev/nvidia-caps/nvidia-cap" + ci}}
	}
	amd := func(file string) slurm.Device {
		return slurm.Device{Type: "spx_nps1", Flags: slurm.AMDFlags, Part: "a-0", Files: []string{file}}
	}
	i := mixed()
	want := []slurm.Device{amd("/dev/dri/renderD128"), {Type: "h100_80gb_hbm3", Part: "b-0", Flags: slurm.NVIDIAFlags, Files: []string{"/dev/nvidia0"}}, instance("c-0", "12", "13"), instance("c-4", "21", "22")}
	if d := cmp.Diff(want, i.gres().Devices); d != "" || i.outside() {
		t.Errorf("outside %v (-want +got)\n%s", i.outside(), d)
	}
	i.pool = &runstate.Reservation{Name: "slurm", Partitions: []string{"c-4", "a-0"}}
	if d := cmp.Diff([]slurm.Device{instance("c-4", "21", "22"), amd("/dev/dcm/slurm/render1")}, i.gres().Devices); d != "" || !i.outside() {
		t.Errorf("reserved, outside %v (-want +got)\n%s", i.outside(), d)
	}
	i.pool.Partitions = nil
	if got := i.gres().Devices; got != nil {
		t.Errorf("an empty reservation has %v", got)
	}
}
