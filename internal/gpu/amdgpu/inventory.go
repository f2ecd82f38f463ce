package amdgpu

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/sysfs"
)

// inventory reads the GPUs and their modes. It is a [gpu.Inspector].
type inventory struct {
	roots  gpu.Roots
	kernel gpu.Module
	kfd    kfd
	tables modeTables
}

// Describe implements [gpu.Inspector].
func (n *inventory) Describe(functions []*gpu.Function) error {
	nodes, err := n.kfd.nodes()
	if err != nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	n.describeAll(functions, nodes, err)
	return nil
}

// describeAll describes the functions from the KFD nodes. If nodes are hidden, their GPU is
// unknown, and every GPU with partitions is inaccessible.
func (n *inventory) describeAll(functions []*gpu.Function, nodes []kfdNode, hidden error) {
	parts := byGPU(nodes, functions)
	sysfs.Each(len(functions), func(i int) {
		f := functions[i]
		if m, ok := partition.LookupModel(partition.AMD, f.Device.Device); ok {
			f.Model, f.XCC, f.Guest = m.Name, m.XCC, m.Virtual
			f.Source["model"] = gpu.Table
			if m.XCC > 0 {
				f.Source["xcc"] = gpu.Table
			}
		}
		if f.Err == nil {
			f.SkipReason, f.Err = n.readGPU(f, parts[f.Address])
		}
		switch {
		case f.Err == nil && f.SkipReason == "" && hidden != nil:
			f.AccessDenied, f.Err = true, fmt.Errorf("%w: %w", gpu.ErrAccessDenied, hidden)
		case f.Err != nil:
			f.Compute = ""
		case f.SkipReason == "":
			// The driver refuses a switch while a KFD process is attached to the GPU; see
			// [busyCheck].
			f.SharedNode, f.ExclusiveNodes = kfdDevice, append([]string{kfdDevice}, f.RenderNodes...)
		}
	})
}

// readGPU reads what the driver shows of the function. If the function cannot be partitioned, why
// is the reason.
func (n *inventory) readGPU(f *gpu.Function, nodes []kfdNode) (why string, err error) {
	switch {
	case f.Driver == "":
		return gpu.NotBound, nil
	case f.Driver != driver:
		return "bound to " + f.Driver + ", not " + driver, nil
	}
	own, err := sysfs.OpenDir(n.roots.SysPath("bus/pci/devices", string(f.Address)))
	if err != nil {
		return "", err
	}
	defer own.Close()
	if f.UniqueID, err = own.Optional("unique_id"); err != nil {
		return "", err
	}
	addTopology(&f.Device, nodes)
	if f.Hive == 0 {
		if f.Hive, err = readHive(own); err != nil {
			return "", err
		}
	}
	shown, err := readModes(own, &f.GPU)
	if err == nil && !shown {
		return "no partition files: the driver shows no " + computeFile, nil
	}
	if err == nil {
		err = n.tables.describe(own, &f.GPU)
	}
	return "", err
}

// addDriverVersion sets the version of the driver's module where the library has none. A driver without
// MODULE_VERSION shows none.
func (n *inventory) addDriverVersion(devices []*gpu.Device) error {
	version, err := sysfs.Optional(n.roots.SysPath("module", driver, "version"))
	if err != nil {
		return err
	}
	for _, d := range devices {
		if d.Driver == driver {
			addFacts(d, SMIGPU{DriverVersion: version}, gpu.Sysfs)
		}
	}
	return nil
}

// readHive returns the XGMI hive id without KFD (amdgpu_xgmi.c); 0 for no hive.
func readHive(own sysfs.Dir) (uint64, error) {
	id, err := own.Number("xgmi_hive_info/xgmi_hive_id", 64)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return id, err
}

// NotReady implements [gpu.Inspector]. During the driver's probe, the mode files appear
// first and the DRM device last. The module is live when all its GPUs are probed.
func (n *inventory) NotReady(f gpu.Function) (reason, hint string) {
	switch {
	case !isExpected(f):
	case f.Err != nil:
		return f.Err.Error(), ""
	case f.Driver == "" && !n.kernel.Loaded():
		return "the " + driver + " driver is not loaded", "load the driver with 'modprobe " + driver +
			"'; if it is not loaded at boot, see whether it is blacklisted in /etc/modprobe.d or on the kernel command line"
	case f.Driver == "":
		return gpu.NotBound, ""
	case f.Driver != driver: // for example for a virtual machine
	case !f.DRM:
		return "no DRM device yet", ""
	case n.kernel.State() == "coming":
		return "the driver is still loading", ""
	}
	return "", ""
}

// Progress implements [gpu.Inspector].
func (n *inventory) Progress(gpus []partition.Address) (fingerprint string, loaded bool) {
	return n.kernel.Progress(gpus, "driver", "drm", computeFile)
}

// isExpected reports whether the driver may show modes for f. Other AMD cards may have
// another driver or none.
func isExpected(f gpu.Function) bool {
	_, known := partition.LookupModel(partition.AMD, f.Device.Device)
	return known || f.Accelerator()
}

// RelevantEvent reports whether the uevent is about the driver's module.
func (n *inventory) RelevantEvent(subsystem, path string) bool {
	return subsystem == "module" && path == "/module/"+driver
}

// modeFiles lists the existing mode files. The driver sends no uevent when one is written.
func (n *inventory) modeFiles() []string {
	devices, _ := sysfs.Names(n.roots.SysPath("bus/pci/devices")) // without devices there are no files
	var all []string
	for _, device := range devices {
		for _, name := range []string{computeFile, memoryFile, allocationFile} {
			file := n.roots.SysPath("bus/pci/devices", device, name)
			if _, err := os.Lstat(file); err != nil {
				continue // a driver may have no memory modes, and none has an allocation before Linux 7.1
			}
			all = append(all, file)
		}
	}
	return all
}
