package gpu

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"dcm/internal/gpu/partition"
	"dcm/internal/linux/sysfs"
	"dcm/internal/sorting"
)

// Function is a device and what waiting for it looks at.
type Function struct {
	Device
	Class uint32
	DRM   bool  // it is registered with DRM, which is the last thing that probing does
	Err   error // something of it cannot be read
}

// Accelerator tells whether the function is no display (PCI Code and ID Assignment
// Specification).
func (f *Function) Accelerator() bool { return f.Class>>16 == classAccelerator }

// PCI base classes.
const (
	classDisplay     = 0x03
	classAccelerator = 0x12
)

// scan lists the display and accelerator functions of the bus, with what every PCI
// function has.
func scanPCI(sys string) ([]*Function, error) { return listFunctions(sys, (*Function).readIDs) }

// list lists those functions, with what describe reads of each.
func listFunctions(sys string, describe func(f *Function, own sysfs.Dir) error) ([]*Function, error) {
	bus, err := sysfs.OpenDir(filepath.Join(sys, "bus/pci/devices"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer bus.Close()
	names, err := sysfs.NamesIn(bus)
	if err != nil {
		return nil, err
	}
	var out []*Function
	for _, name := range names {
		a, err := partition.ParseAddress(name)
		if err != nil {
			continue
		}
		class, err := bus.Number(name+"/class", 24)
		if errors.Is(err, fs.ErrNotExist) { // gone meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		if c := class >> 16; c == classDisplay || c == classAccelerator {
			out = append(out, &Function{Device: Device{GPU: partition.GPU{Address: a}, NUMA: -1, Source: make(map[string]string)}, Class: uint32(class)})
		}
	}
	sysfs.Each(len(out), func(i int) {
		own, err := bus.Open(string(out[i].Address))
		if out[i].Err = err; err == nil {
			out[i].Err = describe(out[i], own)
			own.Close()
		}
	})
	sorting.By(out, func(a, b *Function) int { return a.Address.Compare(b.Address) })
	return out, nil
}

// identify reads what every PCI function has.
func (f *Function) readIDs(own sysfs.Dir) error {
	if err := f.readVendor(own); err != nil {
		return err
	}
	device, err := own.Number("device", 16)
	if err != nil {
		return err
	}
	f.Device.Device = uint16(device)
	if f.Driver, err = own.Link("driver"); err != nil {
		return err
	}
	f.Model = fmt.Sprintf("%#04x:%#04x", uint64(f.Vendor), device)
	f.Source["model"] = Sysfs
	numa, err := own.Optional("numa_node")
	if err != nil {
		return err
	}
	if v, err := strconv.Atoi(numa); err == nil {
		f.NUMA = v
	}
	return f.readDRM(own)
}

// maker reads whose the function is.
func (f *Function) readVendor(own sysfs.Dir) error {
	vendor, err := own.Number("vendor", 16)
	f.Vendor = partition.Vendor(vendor)
	return err
}

// cards reads the function's own DRM devices, which are its first partition's.
func (f *Function) readDRM(own sysfs.Dir) error {
	names, err := sysfs.NamesAt(own, "drm")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	f.DRM = true
	for _, name := range names {
		if kind, _, ok := DRMName(name); ok && kind == "card" {
			f.Card = name
		}
	}
	return nil
}

// DRMName takes "card1" and "renderD128" apart.
func DRMName(name string) (kind string, number int, ok bool) {
	for _, kind := range []string{"card", "renderD"} {
		if rest, found := cutDigits(name, kind); found {
			n, err := strconv.Atoi(rest)
			return kind, n, err == nil
		}
	}
	return "", 0, false
}

func cutDigits(name, kind string) (string, bool) {
	if len(name) <= len(kind) || name[:len(kind)] != kind {
		return "", false
	}
	rest := name[len(kind):]
	for _, c := range []byte(rest) {
		if c < '0' || c > '9' {
			return "", false
		}
	}
	return rest, true
}
