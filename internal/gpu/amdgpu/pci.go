package amdgpu

import (
	"errors"
	"fmt"
	"io/fs"

	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/sysfs"
)

// Describe implements [gpu.Inspector].
func (n *Node) Describe(functions []*gpu.Function) error {
	nodes, err := n.topology()
	if err != nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	n.describeAll(functions, nodes, err)
	return nil
}

// describeAll describes the functions from the KFD nodes. If nodes are hidden, their GPU is
// unknown, and every GPU with partitions is inaccessible.
func (n *Node) describeAll(functions []*gpu.Function, nodes []kfdNode, hidden error) {
	parts := byGPU(nodes, functions)
	sysfs.Each(len(functions), func(i int) {
		f := functions[i]
		if m, ok := partition.LookupModel(partition.AMD, f.Device.Device); ok {
			f.Model, f.XCC = m.Name, m.XCC
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
			// The driver refuses a switch while a process is attached to KFD, in older
			// kernels for any GPU.
			f.ExclusiveNodes = append([]string{"/dev/kfd"}, f.RenderNodes...)
		}
	})
}

// readGPU reads what the driver shows of the function. why is the reason if it cannot be
// partitioned.
func (n *Node) readGPU(f *gpu.Function, nodes []kfdNode) (why string, err error) {
	switch {
	case f.Driver == "":
		return gpu.NotBound, nil
	case f.Driver != driver:
		return "bound to " + f.Driver + ", not to " + driver, nil
	}
	own, err := sysfs.OpenDir(n.sys("bus/pci/devices", string(f.Address)))
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
	return "", err
}

// readHive returns the XGMI hive id without KFD (amdgpu_xgmi.c); 0 for no hive.
func readHive(own sysfs.Dir) (uint64, error) {
	id, err := own.Number("xgmi_hive_info/xgmi_hive_id", 64)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return id, err
}
