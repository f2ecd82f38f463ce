package gpu

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"

	"dcm/internal/gpu/partition"
)

// bus is the PCI bus with the vendors whose GPUs it may have.
type bus struct {
	sys         string
	vendors     []Vendor
	only        []partition.Address                              // nil: all GPUs
	made        func() map[partition.Address]partition.Made      // nil: none
	missing     func(present []partition.GPU) []partition.Absent // nil: none
	presentMask atomic.Uint64                                    // bit i: vendors[i] had a GPU at the last scan; 0 before the first scan
}

// functions scans the bus and has each vendor describe its functions.
func (b *bus) functions() ([]*Function, error) {
	found, err := scanPCI(b.sys)
	if err != nil {
		return nil, err
	}
	if b.only != nil {
		found = slices.DeleteFunc(found, func(f *Function) bool { return !slices.Contains(b.only, f.Address) })
	}
	b.presentMask.Store(b.vendorMask(found))
	made := b.listMade()
	for _, v := range b.vendors {
		own := ownedBy(v, found)
		if len(own) == 0 {
			continue
		}
		if err := v.Describe(own); err != nil {
			return found, withVendor(v, err)
		}
		for _, f := range own {
			f.Err = withVendor(v, f.Err)
		}
	}
	setMade(found, made, b.listMade())
	for _, f := range found {
		_, known := b.vendor(f.Vendor)
		switch {
		case f.Err != nil:
			f.SkipReason = f.Err.Error()
		case !known:
			f.SkipReason = "not an " + b.vendorNames() + " GPU"
		}
	}
	b.setMissing(found)
	return found, nil
}

// setMissing sets the GPUs that are missing.
func (b *bus) setMissing(found []*Function) {
	if b.missing == nil || b.only != nil {
		return
	}
	missing := b.missing(Partitionable(deviceList(found)))
	for _, f := range found {
		f.Missing = missing
	}
}

// listMade returns what leases have made.
func (b *bus) listMade() map[partition.Address]partition.Made {
	if b.made == nil {
		return nil
	}
	return b.made()
}

// setMade sets what leases have made. A claim exists for longer than its instance or mode, so those from
// before and after the reading of the GPUs include each that was read.
func setMade(found []*Function, before, after map[partition.Address]partition.Made) {
	for _, f := range found {
		first, last := before[f.Address], after[f.Address]
		f.Made = slices.Concat(first.Instances, last.Instances)
		if f.MadeMode = last.MadeMode; f.MadeMode.Compute != f.Compute && first.Compute != "" {
			f.MadeMode = first.MadeMode
		}
	}
}

// vendorMask returns bit i for vendors[i] if one of the functions is its own.
func (b *bus) vendorMask(found []*Function) uint64 {
	var mask uint64
	for i, v := range b.vendors {
		if len(ownedBy(v, found)) > 0 {
			mask |= 1 << i
		}
	}
	return mask
}

// present returns the vendors that have a function on the bus. It uses the result of the last
// scan, if there was one. If the bus cannot be read, it returns all vendors and the error.
func (b *bus) present() ([]Vendor, error) {
	mask := b.presentMask.Load()
	if mask == 0 {
		found, err := listFunctions(b.sys, (*Function).readVendor)
		if err != nil {
			return b.vendors, err
		}
		mask = b.vendorMask(found)
	}
	return b.selected(mask), nil
}

// selected returns vendors[i] for each bit i of the mask.
func (b *bus) selected(mask uint64) []Vendor {
	var out []Vendor
	for i, v := range b.vendors {
		if mask&(1<<i) != 0 {
			out = append(out, v)
		}
	}
	return out
}

// vendor returns the vendor with that PCI vendor id.
func (b *bus) vendor(id partition.Vendor) (v Vendor, ok bool) {
	i := slices.IndexFunc(b.vendors, func(v Vendor) bool { return v.Vendor == id })
	if i < 0 {
		return Vendor{}, false
	}
	return b.vendors[i], true
}

// vendorNames lists the vendors for a message: "AMD", "AMD or NVIDIA".
func (b *bus) vendorNames() string {
	names := make([]string, len(b.vendors))
	for i, v := range b.vendors {
		names[i] = v.Vendor.String()
	}
	return strings.Join(names, " or ")
}

// each calls f for every vendor that has devices in the list, and joins the errors.
func (b *bus) each(devices []Device, f func(v Vendor, own []*Device) error) error {
	var errs []error
	for _, v := range b.vendors {
		var own []*Device
		for i := range devices {
			if devices[i].Vendor == v.Vendor {
				own = append(own, &devices[i])
			}
		}
		if len(own) > 0 {
			errs = append(errs, withVendor(v, f(v, own)))
		}
	}
	return errors.Join(errs...)
}

// ownedBy returns the functions of the vendor.
func ownedBy(v Vendor, all []*Function) []*Function {
	return slices.DeleteFunc(slices.Clone(all), func(f *Function) bool { return f.Vendor != v.Vendor })
}
