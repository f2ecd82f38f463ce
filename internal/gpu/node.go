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

// Node is the set of GPUs of this machine. Its methods may be called concurrently.
type Node struct {
	sys          string
	vendors      []Vendor
	pollInterval time.Duration // for a driver that is loading
	probeTimeout time.Duration // how long a loaded driver may show no progress before missing GPUs are given up
	events       Listener      // nil: poll only
	leases       func() []Holder
	presentMask  atomic.Uint64 // bit i: vendors[i] had a GPU at the last scan; 0 before the first scan
}

// Option configures a [Node].
type Option func(*Node)

// PollInterval sets how often the progress of a loading driver is read. The default is 100
// ms.
func PollInterval(every time.Duration) Option { return func(n *Node) { n.pollInterval = every } }

// ProbeTimeout sets how long a loaded driver may show no progress before
// [Node.WaitAfterLoad] gives up the GPUs that are missing. The default is 15 s.
func ProbeTimeout(d time.Duration) Option { return func(n *Node) { n.probeTimeout = d } }

// Listener returns a channel that receives a value for each uevent that relevant accepts,
// until ctx ends.
type Listener func(ctx context.Context, relevant func(subsystem, path string) bool) <-chan struct{}

// Events sets the listener for uevents. A loading driver is then inspected at each event and
// polled ten times less often.
func Events(l Listener) Option {
	return func(n *Node) { n.events, n.pollInterval = l, 10*n.pollInterval }
}

// Leases sets the source of the processes of leases. They block every change, since they may
// open their partitions at any time.
func Leases(list func() []Holder) Option { return func(n *Node) { n.leases = list } }

// Open returns the node with the GPUs of these vendors. sys is the mount point of sysfs.
// Open reads nothing.
func Open(sys string, vendors []Vendor, opts ...Option) *Node {
	n := &Node{sys: sys, vendors: vendors, pollInterval: 100 * time.Millisecond, probeTimeout: 15 * time.Second}
	for _, o := range opts {
		o(n)
	}
	return n
}

// Devices returns every display and accelerator function in PCI order, including those that
// cannot be partitioned. A GPU that could not be read is returned with the error as its
// SkipReason, and the joined error names it.
func (n *Node) Devices(ctx context.Context) ([]Device, error) {
	found, err := sysfs.Within(ctx, n.functions)
	if err != nil {
		return nil, fmt.Errorf("cannot read the GPUs: %w", err)
	}
	var errs []error
	for _, f := range found {
		if f.Err != nil {
			errs = append(errs, fmt.Errorf("cannot read %s: %w", f.Address, f.Err))
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

// functions scans the bus and has each vendor describe its functions.
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

// vendorMask returns bit i for vendors[i] if one of the functions is its own.
func (n *Node) vendorMask(found []*Function) uint64 {
	var there uint64
	for i, v := range n.vendors {
		if len(ownedBy(v, found)) > 0 {
			there |= 1 << i
		}
	}
	return there
}

// PollFingerprint returns a text that differs after most changes for which no event exists.
// It covers the vendors that had a GPU at the last scan.
func (n *Node) PollFingerprint() string {
	var signs string
	for i, v := range n.vendors {
		if p, ok := v.(Poller); ok && n.presentMask.Load()&(1<<i) != 0 {
			signs += p.PollFingerprint()
		}
	}
	return signs
}

// Dropins returns the text of the drop-ins that the GPUs on the bus need, by unit name.
func (n *Node) Dropins() map[string]string {
	all := make(map[string]string)
	present, _ := n.present() // an unreadable bus needs no drop-in
	for _, v := range present {
		if p, ok := v.(DropInProvider); ok {
			for unit, text := range p.Dropins() {
				all[unit] += text
			}
		}
	}
	return all
}

// ownedBy returns the functions of the vendor.
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

// vendorNames lists the vendors for a message: "AMD", "AMD or NVIDIA".
func (n *Node) vendorNames() string {
	names := make([]string, len(n.vendors))
	for i, v := range n.vendors {
		names[i] = v.Traits().Vendor.String()
	}
	return strings.Join(names, " or ")
}

// present returns the vendors that have a function on the bus. It uses the result of the
// last scan, if there was one.
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

// Fingerprint returns a text of the devices' state. Two equal texts mean that no device has
// changed, or that a change was undone.
func Fingerprint(devices []Device) string {
	var b strings.Builder
	for _, d := range devices {
		fmt.Fprintf(&b, "%s %q %s %q %s\n", d.Address, d.Driver, d.Shape().Key(), d.SkipReason, d.Card)
	}
	return b.String()
}

// RelevantEvent reports whether a uevent may mean that a GPU appeared, disappeared, changed
// or got a driver.
func (n *Node) RelevantEvent(subsystem, path string) bool {
	switch subsystem {
	case "pci", "drm":
		return true
	}
	return slices.ContainsFunc(n.vendors, func(v Vendor) bool { return v.RelevantEvent(subsystem, path) })
}

// ModeFiles lists the existing files that modes are written to. The drivers send no uevent
// after a write.
func (n *Node) ModeFiles() []string {
	var all []string
	for _, v := range n.vendors {
		if w, ok := v.(ModeWatcher); ok {
			all = append(all, w.ModeFiles()...)
		}
	}
	return all
}

// Traits returns the traits of every vendor, with or without a GPU.
func (n *Node) Traits() []Traits {
	var all []Traits
	for _, v := range n.vendors {
		all = append(all, v.Traits())
	}
	return all
}

// Enrich adds what each vendor's library knows of the devices.
func (n *Node) Enrich(ctx context.Context, devices []Device) error {
	return n.each(devices, func(v Vendor, own []*Device) error {
		if e, ok := v.(Enricher); ok {
			return e.Enrich(ctx, own)
		}
		return nil
	})
}

// ReadDetails adds the details of the partitions; see [DetailReader].
func (n *Node) ReadDetails(ctx context.Context, devices []Device) error {
	return n.each(devices, func(v Vendor, own []*Device) error {
		if r, ok := v.(DetailReader); ok {
			return r.ReadDetails(ctx, own)
		}
		return nil
	})
}

// each calls f for every vendor with the vendor's devices.
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

// Library is the installed library of a vendor.
type Library struct{ Name, State string }

// Libraries returns the library of every vendor, with or without a GPU.
func (n *Node) Libraries(ctx context.Context) []Library {
	var all []Library
	for _, v := range n.vendors {
		if name, state := v.Library(ctx); name != "" {
			all = append(all, Library{name, state})
		}
	}
	return all
}

// AttributePath returns the path of an attribute of a PCI function.
func AttributePath(sys string, a partition.Address, file string) string {
	return sys + "/bus/pci/devices/" + string(a) + "/" + file
}
