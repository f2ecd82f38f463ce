package gpu

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"dcm/internal/gpu/partition"
	"dcm/internal/linux/sysfs"
)

// Node is the set of GPUs of this machine. Its methods may be called concurrently.
type Node struct {
	bus    bus
	wait   waitOptions
	leases func() []Holder // nil: none

	modprobe, rmmod []string // nil: the programs of that name
}

// Option configures a [Node].
type Option func(*Node)

// PollInterval sets how often the progress of a loading driver is read. The default is 100
// ms.
func PollInterval(every time.Duration) Option {
	return func(n *Node) { n.wait.pollInterval = every }
}

// ProbeTimeout sets how long a loaded driver may show no progress before
// [Node.WaitAfterLoad] gives up the GPUs that are missing. The default is 15 s.
func ProbeTimeout(d time.Duration) Option { return func(n *Node) { n.wait.probeTimeout = d } }

// Listener returns a channel that receives a value for each uevent that relevant accepts,
// until ctx ends.
type Listener func(ctx context.Context, relevant func(subsystem, path string) bool) <-chan struct{}

// Events sets the listener for uevents. A loading driver is then inspected at each event and
// polled ten times less often.
func Events(l Listener) Option {
	return func(n *Node) { n.wait.events, n.wait.pollInterval = l, 10*n.wait.pollInterval }
}

// Leases sets the source of the processes of leases. They block every change, since they may
// open their partitions at any time. Without a source, or with nil, there are none.
func Leases(list func() []Holder) Option { return func(n *Node) { n.leases = list } }

// Made sets the source of what leases have made, see [partition.GPU.Made] and [partition.GPU.MadeMode].
func Made(list func() map[partition.Address]partition.Made) Option {
	return func(n *Node) { n.bus.made = list }
}

// Only limits the node to these GPUs. No GPU is missing then.
func Only(list ...partition.Address) Option { return func(n *Node) { n.bus.only = list } }

// Missing sets the source of the GPUs that are missing, see [partition.GPU.Missing].
func Missing(list func(present []partition.GPU) []partition.Absent) Option {
	return func(n *Node) { n.bus.missing = list }
}

// Open returns the node with the GPUs of these vendors. sys is the mount point of sysfs.
// Open reads nothing.
func Open(sys string, vendors []Vendor, opts ...Option) *Node {
	n := &Node{
		bus:  bus{sys: sys, vendors: vendors},
		wait: waitOptions{pollInterval: 100 * time.Millisecond, probeTimeout: 15 * time.Second},
	}
	for _, o := range opts {
		o(n)
	}
	return n
}

// Drivers returns the drivers of the node's GPUs.
func (n *Node) Drivers() Drivers { return Drivers{n} }

// Watch returns where changes of the node's GPUs show.
func (n *Node) Watch() Watch { return Watch{&n.bus} }

// Devices returns every display and accelerator function in PCI order, including those that
// cannot be partitioned. A GPU that could not be read is returned with the error as its
// SkipReason, and the joined error names it.
func (n *Node) Devices(ctx context.Context) ([]Device, error) {
	found, err := sysfs.Within(ctx, n.bus.functions)
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

// Fingerprint returns a text of the devices' state. Two equal texts mean that no device has
// changed, or that a change was undone.
func Fingerprint(devices []Device) string {
	var b strings.Builder
	for _, d := range devices {
		fmt.Fprintf(&b, "%s %q %s %q %s\n", d.Address, d.Driver, d.Shape().Key(), d.SkipReason, d.Card)
	}
	return b.String()
}

// Enrich adds what each vendor's library knows of the devices, see [Vendor.Enrich].
func (n *Node) Enrich(ctx context.Context, devices []Device) error {
	return n.bus.each(devices, func(v Vendor, own []*Device) error {
		if v.Enrich == nil {
			return nil
		}
		return v.Enrich(ctx, own)
	})
}

// ReadDetails adds the details of the partitions, see [Vendor.ReadDetails].
func (n *Node) ReadDetails(ctx context.Context, devices []Device) error {
	return n.bus.each(devices, func(v Vendor, own []*Device) error {
		if v.ReadDetails == nil {
			return nil
		}
		return v.ReadDetails(ctx, own)
	})
}

// Measure returns the usage of every partition of the devices, also after an error.
func (n *Node) Measure(ctx context.Context, devices []Device) ([]PartitionUsage, error) {
	var all []PartitionUsage
	err := n.bus.each(devices, func(v Vendor, own []*Device) error {
		if v.Measure == nil {
			all = append(all, unknownUsage(own, reasonNotMeasured)...)
			return nil
		}
		uses, err := v.Measure(ctx, own)
		if err != nil {
			uses = unknownUsage(own, err.Error())
		}
		all = append(all, uses...)
		return err
	})
	return all, err
}

// CrossChecks runs the cross-check of every vendor that has one.
func (n *Node) CrossChecks(ctx context.Context, devices []Device) []CrossCheck {
	var all []CrossCheck
	n.bus.each(devices, func(v Vendor, own []*Device) error {
		if v.CrossCheck != nil {
			c := v.CrossCheck(ctx, own)
			for _, d := range own {
				c.GPUs = append(c.GPUs, d.Address)
			}
			all = append(all, c)
		}
		return nil
	})
	return all
}

// Library is the installed library of a vendor.
type Library struct{ Name, State string }

// Libraries returns the library of every vendor, with or without a GPU.
func (n *Node) Libraries(ctx context.Context) []Library {
	var all []Library
	for _, v := range n.bus.vendors {
		if name, state := v.Library(ctx); name != "" {
			all = append(all, Library{name, state})
		}
	}
	return all
}

// Dropins returns the text of the drop-ins that the GPUs on the bus need, by unit name.
func (n *Node) Dropins() map[string]string {
	all := make(map[string]string)
	present, err := n.bus.present()
	if err != nil {
		return all // an unreadable bus needs no drop-in
	}
	for _, v := range present {
		if v.Dropins == nil {
			continue
		}
		for unit, text := range v.Dropins() {
			all[unit] += text
		}
	}
	return all
}

// BusyCheck returns what the vendor's driver checks before it changes one GPU.
func (n *Node) BusyCheck(of partition.Vendor) BusyCheck {
	v, ok := n.bus.vendor(of)
	switch {
	case !ok:
		return BusyCheckUnknown
	case v.BusyCheck == nil:
		return BusyCheckGPU
	}
	return v.BusyCheck()
}

// Wait returns the devices when their drivers have brought up every GPU that may be
// partitioned. It returns [ErrNoGPU] immediately if the bus has none. When ctx ends, it
// returns the devices in their current state and a [NotReadyError].
func (n *Node) Wait(ctx context.Context) ([]Device, error) {
	w := waiter{bus: &n.bus, waitOptions: n.wait, relevant: n.Watch().RelevantEvent}
	w.probeTimeout = 0 // no limit
	return w.wait(ctx)
}

// WaitAfterLoad is Wait for a driver that was loaded just now. It gives up a missing GPU if
// the load has ended and no other GPU has come up for the probe timeout: the driver has then
// probed everything and refused this one.
func (n *Node) WaitAfterLoad(ctx context.Context) ([]Device, error) {
	w := waiter{bus: &n.bus, waitOptions: n.wait, relevant: n.Watch().RelevantEvent}
	return w.wait(ctx)
}
