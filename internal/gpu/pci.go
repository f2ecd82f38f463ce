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

// Function is a device with the state that [Inspector.NotReady] needs.
type Function struct {
	Device
	Class uint32
	DRM   bool  // registered with DRM, the last action of the driver's probe
	Err   error // error of reading it
}

// Accelerator reports whether the function is an accelerator and not a display controller
// (PCI Code and ID Assignment Specification).
func (f *Function) Accelerator() bool { return f.Class>>16 == classAccelerator }

// PCI base classes.
const (
	classDisplay     = 0x03
	classAccelerator = 0x12
)

// scanPCI returns the display and accelerator functions of the bus with the facts that every
// PCI function has.
func scanPCI(sys string) ([]*Function, error) { return listFunctions(sys, (*Function).readIDs) }

// listFunctions returns those functions and calls describe for each.
func listFunctions(sys string, describe func(f *Function, own sysfs.Dir) error) ([]*Function, error) {
	bus, names, err := sysfs.ListDir(filepath.Join(sys, "bus/pci/devices"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer bus.Close()
	number, err := bus.Inode(".")
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
		if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		if c := class >> 16; c == classDisplay || c == classAccelerator {
			out = append(out, &Function{Device: Device{GPU: partition.GPU{Address: a}, Binding: Binding{Bus: number}, NUMA: -1, Source: make(map[string]string)}, Class: uint32(class)})
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

// readIDs reads the facts that every PCI function has.
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
	if f.Binding.Link, err = own.Inode("driver"); err != nil {
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

// readVendor reads the PCI vendor id.
func (f *Function) readVendor(own sysfs.Dir) error {
	vendor, err := own.Number("vendor", 16)
	f.Vendor = partition.Vendor(vendor)
	return err
}

// readDRM reads the DRM devices of the function, which belong to its first partition.
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

// DRMName splits "card1" and "renderD128" into kind and number.
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

// AttributePath returns the path of an attribute of a PCI function. sys is the mount point of
// sysfs.
func AttributePath(sys string, a partition.Address, file string) string {
	return sys + "/bus/pci/devices/" + string(a) + "/" + file
}
