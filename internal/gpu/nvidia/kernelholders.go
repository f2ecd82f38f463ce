package nvidia

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"dcm/internal/gpu"
	"dcm/internal/gpu/nvml"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/sysfs"
)

// Kernel modules that hold GPUs without a process that has them open.
const (
	DRMModule     = "nvidia_drm"
	PeermemModule = "nvidia_peermem"
)

// KernelHolder is a kernel module that holds GPUs or may hold them.
type KernelHolder struct {
	Module  string
	Certain bool   // the parameter of the module shows that it holds them
	Why     string // "modeset=1"
	Remedy  string
}

// Remedy returns what makes the module release the GPUs, in one line without a period.
func Remedy(module string) string {
	if module == DRMModule {
		return "set nvidia-drm.modeset=0 on the kernel command line, or run 'modprobe -r " + DRMModule + "' before the change"
	}
	return "run 'modprobe -r " + module + "' before a change that resets a GPU"
}

// KernelHolders returns the loaded modules that hold GPUs or may hold them. sys is the mount point
// of sysfs. nvidia_modeset and nvidia_uvm are not included: both use the driver whenever they are
// loaded, but hold no GPU.
func KernelHolders(sys string) []KernelHolder {
	var out []KernelHolder
	drm := gpu.Module{Sys: sys, Name: DRMModule}
	if drm.Loaded() {
		// Only root can read the parameter.
		modeset, err := sysfs.Read(gpu.Roots{Sys: sys}.SysPath("module", DRMModule, "parameters/modeset"))
		switch {
		case err != nil:
			out = append(out, KernelHolder{DRMModule, false, "its parameter modeset cannot be read", Remedy(DRMModule)})
		case modeset != "N":
			out = append(out, KernelHolder{DRMModule, true, "modeset=1", Remedy(DRMModule)})
		}
	}
	if (gpu.Module{Sys: sys, Name: PeermemModule}).Loaded() {
		out = append(out, KernelHolder{PeermemModule, false, "GPUDirect RDMA", Remedy(PeermemModule)})
	}
	return out
}

// HasConsole reports whether the kernel's text console is on a GPU of the driver, and so keeps
// nvidia_drm loaded. sys is the mount point of sysfs.
func HasConsole(sys string) bool { return gpu.Module{Sys: sys, Name: driver}.HasConsole() }

// holdingModule returns [DRMModule] if it keeps the GPU from the reset that a switch of MIG needs,
// otherwise nil.
func (h host) holdingModule(a partition.Address) *gpu.HoldingModule {
	holds := func(k KernelHolder) bool { return k.Module == DRMModule && k.Certain }
	if !h.resetsForMode(a) || !slices.ContainsFunc(KernelHolders(h.Sys), holds) {
		return nil
	}
	m := &gpu.HoldingModule{Name: DRMModule, Nodes: []string{"/dev/nvidia-modeset"}, Remedy: Remedy(DRMModule)}
	cards, _ := h.drmNodes() // has no error
	for _, name := range cards {
		m.Nodes = append(m.Nodes, "/dev/"+name)
	}
	return m
}

// If the driver did not switch the MIG mode because the GPU is in use, addKernelHolders adds the
// kernel modules that hold the GPU to the error. Modules do not hold instances.
func (h host) addKernelHolders(err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Kind != nvml.InUse || e.Op != nvml.Mode {
		return err
	}
	holders := KernelHolders(h.Sys)
	if len(holders) == 0 {
		return err
	}
	named := *e
	resets := h.resetsForMode(e.GPU)
	var remedies []string
	for _, k := range holders {
		verb := "may hold"
		if k.Certain && resets {
			verb, named.heldInKernel = "holds", true
		}
		named.Text += fmt.Sprintf("; the kernel module %s %s it (%s)", k.Module, verb, k.Why)
		remedies = append(remedies, k.Remedy+"; ")
	}
	named.Hint = strings.Join(remedies, "")
	return &named
}

// resetsForMode reports whether switching MIG resets the GPU, so that the kernel must not hold it.
// For a board that is not in dcm's table it returns false.
func (h host) resetsForMode(a partition.Address) bool {
	device, err := sysfs.Number(h.AttributePath(a, "device"), 16)
	if err != nil {
		return false
	}
	b, known := partition.BoardOf(partition.GPU{Vendor: partition.NVIDIA, Device: uint16(device)})
	return known && b.ModeResetsGPU
}
