package amdgpu

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"

	"dcm/internal/partition"
)

// function is a device and what waiting for it looks at.
type function struct {
	Device
	class uint32
	drm   bool  // it is registered with DRM, which is the last thing that probing does
	err   error // something of it cannot be read
}

func (f function) amd() bool { return f.Vendor == partition.Vendor }

func (n *Node) functions() ([]function, error) {
	entries, err := os.ReadDir(n.sys("bus/pci/devices"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var out []function
	for _, e := range entries {
		a, err := partition.ParseAddress(e.Name())
		if err != nil {
			continue
		}
		class, err := number(n.pci(a, "class"), 24)
		if errors.Is(err, fs.ErrNotExist) { // gone meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		if c := class >> 16; c == classDisplay || c == classAccelerator {
			out = append(out, function{Device: Device{GPU: partition.GPU{Address: a}}, class: uint32(class)})
		}
	}
	slices.SortFunc(out, func(a, b function) int { return a.Address.Compare(b.Address) })
	return out, n.fill(out)
}

// PCI base classes (PCI Code and ID Assignment Specification).
const (
	classDisplay     = 0x03
	classAccelerator = 0x12
)

func (n *Node) fill(all []function) error {
	for i := range all {
		all[i].err = n.identify(&all[i])
	}
	var nodes []kfdNode
	if slices.ContainsFunc(all, function.amd) {
		var err error
		if nodes, err = n.topology(); err != nil {
			return err
		}
	}
	parts := byGPU(nodes, all)
	for i := range all {
		f := &all[i]
		if f.err == nil {
			f.Why, f.err = n.look(f, parts[f.Address])
		}
		if f.err != nil {
			f.Why, f.Compute = f.err.Error(), ""
		}
	}
	return nil
}

// identify reads what every PCI function has.
func (n *Node) identify(f *function) error {
	f.NUMA, f.Source = -1, make(map[string]string)
	vendor, err := number(n.pci(f.Address, "vendor"), 16)
	if err != nil {
		return err
	}
	device, err := number(n.pci(f.Address, "device"), 16)
	if err != nil {
		return err
	}
	f.Vendor, f.Device.Device = uint16(vendor), uint16(device)
	if f.Driver, err = linkBase(n.pci(f.Address, "driver")); err != nil {
		return err
	}
	f.Model = fmt.Sprintf("%#04x:%#04x", vendor, device)
	f.Source["model"] = sysfs
	if m, ok := partition.LookupModel(f.Device.Device); ok && f.amd() {
		f.Model, f.XCC = m.Name, m.XCC
		f.Source["model"] = table
		if m.XCC > 0 {
			f.Source["xcc"] = table
		}
	}
	numa, err := readOptional(n.pci(f.Address, "numa_node"))
	if err != nil {
		return err
	}
	if v, err := strconv.Atoi(numa); err == nil {
		f.NUMA = v
	}
	return n.cards(f)
}

var drmName = regexp.MustCompile(`^(card|renderD)[0-9]+$`)

// cards reads the function's own DRM devices, which are its first partition's.
func (n *Node) cards(f *function) error {
	entries, err := os.ReadDir(n.pci(f.Address, "drm"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	f.drm = true
	for _, e := range entries {
		if m := drmName.FindStringSubmatch(e.Name()); m != nil && m[1] == "card" {
			f.Card = e.Name()
		}
	}
	return nil
}

// look reads what the amdgpu driver shows of the function, and tells why there
// is nothing to partition.
func (n *Node) look(f *function, nodes []kfdNode) (why string, err error) {
	switch {
	case !f.amd():
		return "not an AMD GPU", nil
	case f.Driver == "":
		return "driver not bound", nil
	case f.Driver != driver:
		return "bound to " + f.Driver + ", not to " + driver, nil
	}
	if f.UniqueID, err = readOptional(n.pci(f.Address, "unique_id")); err != nil {
		return "", err
	}
	f.describe(nodes)
	if f.Hive == 0 {
		if f.Hive, err = n.hive(f.Address); err != nil {
			return "", err
		}
	}
	shown, err := n.readModes(&f.GPU)
	if err == nil && !shown {
		return "no partition files: the driver shows no " + computeFile, nil
	}
	return "", err
}

// hive is the XGMI hive's id as the driver shows it without KFD
// (amdgpu_xgmi.c), 0 for a GPU in none.
func (n *Node) hive(a partition.Address) (uint64, error) {
	file := n.pci(a, "xgmi_hive_info/xgmi_hive_id")
	id, err := number(file, 64)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return id, err
}
