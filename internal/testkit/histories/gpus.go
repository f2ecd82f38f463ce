package histories

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"dcm/internal/engine/apply"
	"dcm/internal/gpu"
	"dcm/internal/gpu/amdgpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/testkit/sim"
)

// gpus are the GPUs of the host: the simulator's state machine, without its files. The kernel's order of
// events is that of the simulator.
type gpus struct {
	*sim.Node
	w          *world
	chip       sim.Chip
	touched    bool // a kernel event is to be reported
	useChanged int  // counts closes of devices
	broken     bool // the driver fails to load
}

// The times of the simulated hardware.
const (
	switchDelay = 200 * time.Millisecond
	reloadDelay = 2 * time.Second
)

func newGPUs(w *world) *gpus {
	g := &gpus{w: w}
	g.boot()
	return g
}

// boot replaces the hardware by that after a power cut. What a driver was doing has no effect any more.
func (g *gpus) boot() {
	kind, err := sim.LookupKind("mi300x-8")
	if err != nil {
		panic(err)
	}
	kind = kind.Scaled(gpuCount)
	g.chip, g.broken = kind.Boards[0].Chip, false
	g.Node = sim.New(kind, sim.Options{SwitchLatency: switchDelay, ReloadLatency: reloadDelay, Uevent: g.w.uevent})
}

const gpuCount = 4

func (g *gpus) loaded() bool { return g.Loaded() }

// addresses returns the GPUs in PCI order.
func (g *gpus) addresses() []partition.Address {
	var out []partition.Address
	for _, s := range g.State().GPUs {
		out = append(out, s.Address)
	}
	return out
}

// devices returns the GPUs as package amdgpu reads them.
func (g *gpus) devices() []gpu.Device {
	var out []gpu.Device
	var missing []partition.Absent
	for _, s := range g.State().GPUs {
		if s.Vanished {
			missing = append(missing, partition.Absent{Vendor: partition.AMD, Address: s.Address})
		}
	}
	for i, s := range g.State().GPUs {
		if s.Vanished {
			continue
		}
		d := gpu.Device{Model: g.chip.Product, NUMA: 0, Card: fmt.Sprintf("card%d", i), SharedNode: "/dev/kfd"}
		d.GPU = partition.GPU{Address: s.Address, Vendor: partition.AMD, Device: g.chip.Device, XCC: g.chip.XCC, Hive: 1, Missing: missing}
		if !s.Bound {
			d.SkipReason, d.Card = gpu.NotBound, ""
			out = append(out, d)
			continue
		}
		d.Driver, d.Compute, d.Memory = "amdgpu", s.Compute, s.Memory
		d.AvailableCompute, d.AvailableMemory = g.chip.Fits(s.Memory), g.chip.Memory
		d.ExclusiveNodes = []string{"/dev/kfd"}
		for p := range s.Partitions {
			node := g.RenderNode(s.Address, p)
			minor, _ := strconv.Atoi(strings.TrimPrefix(node, "/dev/dri/renderD"))
			d.Parts = append(d.Parts, gpu.Part{Index: p, Minor: minor})
			d.RenderNodes = append(d.RenderNodes, node)
			d.ExclusiveNodes = append(d.ExclusiveNodes, node)
		}
		out = append(out, d)
	}
	return out
}

// notReady returns an error if a GPU has no driver.
func notReady(devices []gpu.Device) *gpu.NotReadyError {
	var out gpu.NotReadyError
	for _, d := range devices {
		if d.SkipReason == gpu.NotBound {
			out.GPUs = append(out.GPUs, gpu.NotReady{GPU: d.Address, Model: d.Model, Reason: "it has no driver"})
		}
	}
	if len(out.GPUs) == 0 {
		return nil
	}
	return &out
}

// holders returns the processes that have a GPU open, except one. The caller holds mu.
func (g *gpus) holders(except int) []gpu.Holder {
	var out []gpu.Holder
	for _, h := range g.State().Holders {
		p := g.w.alive(func(p *process) bool { return p.pid == h.PID })
		if p == nil || h.PID == except {
			continue
		}
		one := gpu.Holder{PID: h.PID, Command: p.program, Unit: p.unit, Vendors: []partition.Vendor{partition.AMD}, Attached: h.Attached}
		for _, d := range h.Devices {
			one.Devices = append(one.Devices, "/dev/"+d)
		}
		switch {
		case len(one.Attached) == gpuCount:
			one.Attached = nil
		case len(one.Attached) == 0 && !g.present(g.addresses()): // its GPUs have left the bus
			one.Attached = []partition.Address{gpu.Removed}
		}
		out = append(out, one)
	}
	return out
}

// hardware is the GPUs as a process accesses them. It implements the parts of [apply.Node].
type hardware struct {
	p    *process
	node *gpu.Node // classifies errors
}

func newHardware(p *process) *hardware {
	h := &hardware{p: p}
	h.node = gpu.Open("/nonexistent", []gpu.Vendor{{
		Traits:      gpu.Traits{Vendor: partition.AMD, Driver: "amdgpu"},
		Executor:    executor{h},
		UsageReader: usage{h},
	}})
	return h
}

func (h *hardware) forRun() apply.Node {
	return apply.Node{Reader: h, Use: h, Driver: loader{h}, Modules: loader{h}, Executor: h.node}
}

// Wait implements [apply.Reader].
func (h *hardware) Wait(ctx context.Context) ([]gpu.Device, error) {
	for {
		devices, _ := h.Devices(ctx)
		no := notReady(devices)
		if no == nil {
			return devices, nil
		}
		if err := h.p.w.wait(ctx, h.p, func() bool { return notReady(h.p.w.gpus.devices()) == nil }); err != nil {
			no.Err = err
			return devices, no
		}
	}
}

// WaitAfterLoad implements [apply.Reader].
func (h *hardware) WaitAfterLoad(ctx context.Context) ([]gpu.Device, error) { return h.Wait(ctx) }

// Devices implements [apply.Reader].
func (h *hardware) Devices(context.Context) (devices []gpu.Device, err error) {
	h.p.effect("read the GPUs", func() { devices = h.p.w.gpus.devices() })
	return devices, nil
}

// Usage implements [apply.UseReader].
func (h *hardware) Usage(ctx context.Context) (gpu.Usage, error) {
	return h.node.UsageOf(ctx, func(partition.Vendor) bool { return true })
}

// usage is a [gpu.UsageReader].
type usage struct{ *hardware }

// Usage implements [gpu.UsageReader].
func (u usage) Usage(context.Context) (out gpu.VendorUsage, err error) {
	u.p.effect("scan open files", func() {
		out.Holders = u.p.w.gpus.holders(u.p.pid)
		out.Vendor, out.Counted = partition.AMD, true
		for _, h := range out.Holders {
			out.Count += len(h.Devices)
		}
		out.Accounted = out.Count
	})
	return out, nil
}

func (u usage) UsageFingerprint() string { return "" }

type loader struct{ *hardware }

func (l loader) Loaded() (loaded bool) {
	l.p.effect("read the module's state", func() { loaded = l.p.w.gpus.loaded() })
	return loaded
}

func (l loader) Load(ctx context.Context) error {
	if l.Loaded() {
		return nil
	}
	l.p.effect("modprobe", func() {})
	err := l.p.w.gpus.Load(ctx, sim.Parameters{})
	for errors.Is(err, syscall.EBUSY) { // the kernel waits for the end of another load
		time.Sleep(100 * time.Millisecond)
		err = l.p.w.gpus.Load(ctx, sim.Parameters{})
	}
	l.p.effect("modprobe has ended", func() { l.p.w.deviceEvent() })
	if err != nil {
		return &amdgpu.ReloadError{Err: err}
	}
	return nil
}

// Traits implements [apply.Driver].
func (l loader) Traits() []gpu.Traits { return l.node.Drivers().Traits() }

// These implement [apply.ModuleLoader]: no other module holds the GPUs.
func (loader) ModuleLoaded(string) bool                   { return true }
func (loader) UnloadModule(context.Context, string) error { return nil }
func (loader) LoadModule(context.Context, string) error   { return nil }

type executor struct{ *hardware }

// Explain implements [gpu.Executor].
func (executor) Explain(err error) (hint string, transient bool) {
	return amdgpu.Hint(err), amdgpu.IsTransient(err)
}

// Execute implements [gpu.Executor].
func (x executor) Execute(ctx context.Context, steps []partition.Step, onStep gpu.StepFunc) error {
	var errs []error
	for _, s := range steps {
		onStep(s, true, nil)
		err := x.execute(ctx, s)
		onStep(s, false, err)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (x executor) execute(ctx context.Context, s partition.Step) (err error) {
	g := x.p.w.gpus
	switch s.Kind {
	case partition.RequestMemory:
		x.p.effect("request "+s.To, func() { err = g.SetMemory(ctx, s.GPU, s.To) })
	case partition.ReloadDriver:
		return x.reload(ctx)
	default:
		err = x.busy(ctx, func() error {
			x.p.effect("switch "+string(s.GPU), func() { x.p.inKernel = true })
			err := g.SetCompute(ctx, s.GPU, s.To)
			x.p.effect("switched "+string(s.GPU), func() {
				x.p.inKernel = false
				x.p.w.deviceEvent()
			})
			return err
		})
	}
	if err != nil {
		return &amdgpu.SetError{GPU: s.GPU, File: "current_compute_partition", From: s.From, To: s.To, Err: err}
	}
	return nil
}

// busy repeats a call that returns EBUSY, for two seconds.
func (x executor) busy(ctx context.Context, call func() error) error {
	until := time.Now().Add(2 * time.Second)
	for {
		err := call()
		if !errors.Is(err, syscall.EBUSY) || !time.Now().Before(until) || ctx.Err() != nil {
			return err
		}
		time.Sleep(300 * time.Millisecond)
	}
}

func (x executor) reload(ctx context.Context) error {
	g := x.p.w.gpus
	err := x.busy(ctx, func() (err error) {
		x.p.effect("modprobe -r", func() {
			err = g.Unload(ctx)
			x.p.w.deviceEvent()
		})
		return err
	})
	if err != nil {
		return &amdgpu.ReloadError{UnloadFailed: true, Loaded: true, Err: err}
	}
	return loader(x).Load(ctx)
}

// open opens the devices of GPUs for a process: /dev/kfd, and the first render node of each GPU that it names.
// The caller holds mu.
func (p *process) open(only []partition.Address) error {
	g := p.w.gpus
	if !g.loaded() {
		return syscall.ENOENT
	}
	for _, a := range only {
		h, err := g.OpenRender(a, 0, p.pid)
		if err != nil {
			p.close()
			return err
		}
		p.handles = append(p.handles, h)
	}
	h, err := g.OpenKFD(p.pid)
	if err != nil {
		p.close()
		return err
	}
	p.handles = append(p.handles, h)
	return nil
}

// shapes describes the modes of all GPUs. The caller holds mu.
func (g *gpus) shapes() []string {
	var out []string
	for _, s := range g.State().GPUs {
		out = append(out, string(s.Compute)+"/"+string(s.Memory))
	}
	return slices.Clip(out)
}
