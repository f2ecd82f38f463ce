package gpu

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"dcm/internal/gpu/partition"
	"dcm/internal/linux/sysfs"
)

// Node is the machine whose GPUs are looked at and changed. Its methods may be
// called concurrently.
type Node struct {
	sys          string
	vendors      []Vendor
	pollInterval time.Duration // between two glances at a driver that is coming up
	probeTimeout time.Duration // how long a loaded driver may bring up nothing while a GPU is missing
	events       Listener      // nil: nobody listens
	leases       func() []Holder
	presentMask  atomic.Uint64 // the vendors that had a GPU when last looked, see those; 0 before
}

// Option changes how a node is treated.
type Option func(*Node)

// Poll sets how often there is a glance at a driver that is coming up.
func PollInterval(every time.Duration) Option { return func(n *Node) { n.pollInterval = every } }

// Quiet sets for how long nothing more may come up, after a load, for the GPUs that
// are missing to be given up.
func ProbeTimeout(d time.Duration) Option { return func(n *Node) { n.probeTimeout = d } }

// Listen tells when the kernel tells of a device that is about a GPU (subsystem and
// path of a uevent), until the context ends.
type Listener func(ctx context.Context, about func(subsystem, path string) bool) <-chan struct{}

// Events sets who listens to the kernel. Then a driver that is coming up is looked at
// when something happens, and otherwise seldom.
func Events(l Listener) Option {
	return func(n *Node) { n.events, n.pollInterval = l, 10*n.pollInterval }
}

// Leases sets who tells of processes that were given partitions. They are in the way of
// every change, since they may open them at any time.
func Leases(list func() []Holder) Option { return func(n *Node) { n.leases = list } }

// Open returns the node under the root of sysfs, with the GPUs of these vendors. It
// touches nothing.
func Open(sys string, vendors []Vendor, opts ...Option) *Node {
	n := &Node{sys: sys, vendors: vendors, pollInterval: 100 * time.Millisecond, probeTimeout: 15 * time.Second}
	for _, o := range opts {
		o(n)
	}
	return n
}

// Devices returns every display and accelerator function in PCI order. Those that
// cannot be partitioned are among them, with Why.
//
// A GPU that could not be read makes an error that names it and is returned too,
// with the error as its Why.
func (n *Node) Devices(ctx context.Context) ([]Device, error) {
	found, err := sysfs.Within(ctx, n.functions)
	if err != nil {
		return nil, fmt.Errorf("cannot look at the GPUs: %w", err)
	}
	var errs []error
	for _, f := range found {
		if f.Err != nil {
			errs = append(errs, fmt.Errorf("cannot look at %s: %w", f.Address, f.Err))
		}
	}
	return deviceList(found), errors.Join(errs...)
}

func deviceList(found []*Function) []Device {
	devices := make([]Device, len(found))
	for i, f := range found {
		devices[i] = f.Device
	}
	return devices
}

// functions looks at the bus, and has each vendor describe what is its own.
func (n *Node) functions() ([]*Function, error) {
	found, err := scanPCI(n.sys)
	if err != nil {
		return nil, err
	}
	n.presentMask.Store(n.vendorMask(found))
	for _, v := range n.vendors {
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
	for _, f := range found {
		switch {
		case f.Err != nil:
			f.SkipReason = f.Err.Error()
		case n.vendor(f.Vendor) == nil:
			f.SkipReason = "not an " + n.vendorNames() + " GPU"
		}
	}
	return found, nil
}

// those are the vendors of the functions, a bit for each.
func (n *Node) vendorMask(found []*Function) uint64 {
	var there uint64
	for i, v := range n.vendors {
		if len(ownedBy(v, found)) > 0 {
			there |= 1 << i
		}
	}
	return there
}

// Glance is what a short look shows of changes that nothing tells of, to be compared
// with an earlier one, of the vendors whose GPUs were there at the last look.
func (n *Node) PollFingerprint() string {
	var signs string
	for i, v := range n.vendors {
		if p, ok := v.(Poller); ok && n.presentMask.Load()&(1<<i) != 0 {
			signs += p.PollFingerprint()
		}
	}
	return signs
}

// Dropins is what the GPUs on the bus need of units: text for systemd, by unit.
func (n *Node) Dropins() map[string]string {
	all := make(map[string]string)
	there, _ := n.present() // what cannot be read needs nothing
	for _, v := range there {
		if p, ok := v.(DropInProvider); ok {
			for unit, text := range p.Dropins() {
				all[unit] += text
			}
		}
	}
	return all
}

// of returns the functions that are the vendor's.
func ownedBy(v Vendor, all []*Function) []*Function {
	return slices.DeleteFunc(slices.Clone(all), func(f *Function) bool { return f.Vendor != v.Traits().Vendor })
}

func (n *Node) vendor(id partition.Vendor) Vendor {
	for _, v := range n.vendors {
		if v.Traits().Vendor == id {
			return v
		}
	}
	return nil
}

// makers names the vendors: "AMD", "AMD or NVIDIA".
func (n *Node) vendorNames() string {
	names := make([]string, len(n.vendors))
	for i, v := range n.vendors {
		names[i] = v.Traits().Vendor.String()
	}
	return strings.Join(names, " or ")
}

// present are the vendors of which there is a function on the bus, as it was when the node
// last looked at all of it, if it has.
func (n *Node) present() ([]Vendor, error) {
	there := n.presentMask.Load()
	var err error
	if there == 0 {
		var found []*Function
		found, err = listFunctions(n.sys, (*Function).readVendor)
		there = n.vendorMask(found)
	}
	var out []Vendor
	for i, v := range n.vendors {
		if there&(1<<i) != 0 {
			out = append(out, v)
		}
	}
	return out, err
}

// Seen sums up devices: two equal sums mean that nothing has happened to them in
// between, or was undone.
func Fingerprint(devices []Device) string {
	var b strings.Builder
	for _, d := range devices {
		fmt.Fprintf(&b, "%s %q %s %q %s\n", d.Address, d.Driver, d.Shape().Key(), d.SkipReason, d.Card)
	}
	return b.String()
}

// Concerns tells whether what the kernel says of a device (subsystem and path of a
// uevent) may mean that a GPU came, went or got a driver.
func (n *Node) RelevantEvent(subsystem, path string) bool {
	switch subsystem {
	case "pci", "drm":
		return true
	}
	return slices.ContainsFunc(n.vendors, func(v Vendor) bool { return v.RelevantEvent(subsystem, path) })
}

// ModeFiles lists the files that modes are written to, of the GPUs that have some
// now. No driver tells of a write to them.
func (n *Node) ModeFiles() []string {
	var all []string
	for _, v := range n.vendors {
		if w, ok := v.(ModeWatcher); ok {
			all = append(all, w.ModeFiles()...)
		}
	}
	return all
}

// Traits are those of the vendors that the node knows, there or not.
func (n *Node) Traits() []Traits {
	var all []Traits
	for _, v := range n.vendors {
		all = append(all, v.Traits())
	}
	return all
}

// Enrich has each vendor's library add what it knows of the devices.
func (n *Node) Enrich(ctx context.Context, devices []Device) error {
	return n.each(devices, func(v Vendor, own []*Device) error {
		if e, ok := v.(Enricher); ok {
			return e.Enrich(ctx, own)
		}
		return nil
	})
}

// Detail adds to the devices' partitions what takes a closer look.
func (n *Node) ReadDetails(ctx context.Context, devices []Device) error {
	return n.each(devices, func(v Vendor, own []*Device) error {
		if e, ok := v.(Enricher); ok {
			return e.ReadDetails(ctx, own)
		}
		return nil
	})
}

// each hands every vendor its own devices.
func (n *Node) each(devices []Device, f func(v Vendor, own []*Device) error) error {
	var errs []error
	for _, v := range n.vendors {
		var own []*Device
		for i := range devices {
			if devices[i].Vendor == v.Traits().Vendor {
				own = append(own, &devices[i])
			}
		}
		if len(own) > 0 {
			errs = append(errs, withVendor(v, f(v, own)))
		}
	}
	return errors.Join(errs...)
}

// Library is a vendor's, as it is installed.
type Library struct{ Name, State string }

// Libraries names those that the vendors could use, there or not.
func (n *Node) Libraries(ctx context.Context) []Library {
	var all []Library
	for _, v := range n.vendors {
		if name, state := v.Library(ctx); name != "" {
			all = append(all, Library{name, state})
		}
	}
	return all
}

// Attribute is the path of a PCI function's attribute.
func AttributePath(sys string, a partition.Address, file string) string {
	return sys + "/bus/pci/devices/" + string(a) + "/" + file
}
