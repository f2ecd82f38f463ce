package nvidia

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"dcm/internal/gpu"
	"dcm/internal/gpu/nvml"
	"dcm/internal/gpu/partition"
)

// Values of [gpu.Device.SkipReason].
const (
	notLoaded = "the " + driver + " driver is not loaded"
	noMIG     = "no MIG"

	vGPUGuest = "only the host can set the MIG mode of a virtual GPU"
)

// inventory reads the GPUs and their MIG instances. It is a [gpu.Inspector].
type inventory struct {
	host            host
	client          *client
	conflictingUnit func() string // see [ConflictingUnit]
	createNodes     bool          // see [CreateNodes]
	reuse           bool          // see [ReuseReply]
	lastReply       atomic.Pointer[nvml.Reply]
	changedReply    atomic.Pointer[nvml.Reply] // of the last change, until the next read; nil without reuse
}

// Describe describes NVIDIA's functions. It calls the library once for all of them.
func (n *inventory) Describe(functions []*gpu.Function) error {
	state := n.host.module().State()
	var ask []*gpu.Function
	for _, f := range functions {
		for _, b := range partition.Boards() {
			if b.Device == f.Device.Device {
				f.Model, f.Source["model"] = b.Name, gpu.Table
			}
		}
		f.SubVendor, f.SubDevice = n.host.subsystem(f.Address)
		switch {
		case f.Err != nil:
		case state == "":
			f.SkipReason = notLoaded
		case f.Driver == "":
			f.SkipReason = gpu.NotBound
		case f.Driver != driver:
			f.SkipReason = "bound to " + f.Driver + ", not " + driver
		case n.client.program == "":
			f.SkipReason = reasonNoLibrary
		default:
			ask = append(ask, f)
		}
	}
	if len(ask) > 0 {
		n.describe(ask)
	}
	return nil
}

func (n *inventory) describe(functions []*gpu.Function) {
	request := nvml.Request{Do: nvml.Look, Nodes: n.createNodes}
	for _, f := range functions {
		request.GPUs = append(request.GPUs, f.Address)
	}
	reply, err := n.read(request)
	minors := n.host.capMinors()
	for i, f := range functions {
		switch {
		case err != nil:
			setError(f, err)
		case i >= len(reply.GPUs) || reply.GPUs[i].Address != f.Address:
			setError(f, &Error{Op: nvml.Look, GPU: f.Address, Kind: nvml.Garbage, Text: "the reply is not about the requested GPUs"})
		default:
			n.setFacts(f, reply, reply.GPUs[i], minors)
		}
	}
	if err == nil {
		n.lastReply.Store(&reply)
	}
}

// read sends the request, or returns the reply of the last change.
func (n *inventory) read(r nvml.Request) (nvml.Reply, error) {
	if last := n.changedReply.Swap(nil); last != nil && len(r.GPUs) == 1 && r.GPUs[0] == last.GPUs[0].Address {
		return *last, nil
	}
	return n.client.call(context.Background(), r)
}

// changed receives the reply of a change of one GPU.
func (n *inventory) changed(reply nvml.Reply) {
	if n.reuse {
		n.changedReply.Store(&reply)
	}
}

// setError sets why a function could not be read. The caller waits and retries after a transient
// error. Any other error becomes the SkipReason, which does not delay the other GPUs.
func setError(f *gpu.Function, err error) {
	var e *Error
	if errors.As(err, &e) && !e.transient() {
		f.SkipReason, f.AccessDenied = e.Error(), e.accessDenied()
		return
	}
	f.Err = err
}

// setFacts sets what the library reports.
func (n *inventory) setFacts(f *gpu.Function, reply nvml.Reply, g nvml.GPU, minors map[string]int) {
	if g.Error != nil {
		setError(f, failure(nvml.Look, f.Address, g.Error))
		return
	}
	f.UUID, f.Name, f.Serial, f.DriverVersion, f.Bytes = g.UUID, g.Name, g.Serial, reply.Driver, g.Memory
	if name := strings.TrimPrefix(g.Name, "NVIDIA "); name != "" {
		f.Model, f.Source["model"] = name, source(reply)
	}
	for fact, value := range map[string]string{"uuid": g.UUID, "name": g.Name, "serial": g.Serial, "driver_version": reply.Driver} {
		if value != "" {
			f.Source[fact] = source(reply)
		}
	}
	f.Guest = g.Virtualization == nvml.VGPUGuest
	if g.MIG == nil {
		if f.SkipReason = noMIG; f.Guest {
			f.SkipReason += ": " + vGPUGuest
		}
		return
	}
	f.MIG, f.MIGPending = geometry(g), g.MIG.Current != g.MIG.Pending
	f.Profiles = g.Offers()
	f.ModeResetsGPU = g.Resetless == nil || !*g.Resetless
	f.GeometryBlocked = n.geometryBlocked(g)
	if f.ModeResetsGPU {
		f.ModeBlocked = n.modeBlocked(f.Address, g)
		f.HeldBy = n.host.holdingModule(f.Address)
	}
	f.ExclusiveNodes, f.Parts = n.host.exclusiveNodes(f, g, minors), partsOf(g, minors)
}

// source returns the name and version of the library.
func source(reply nvml.Reply) string {
	if reply.NVML == "" {
		return "nvml"
	}
	return "nvml " + reply.NVML
}

// geometry returns the current geometry. It omits GPU instances without a compute instance,
// since they are unusable; executeStep destroys them.
func geometry(g nvml.GPU) *partition.MIG {
	g.Instances = slices.DeleteFunc(slices.Clone(g.Instances), isHollow)
	if m, _ := g.Geometry(); m != nil {
		return m
	}
	return &partition.MIG{Off: true}
}

func isHollow(i nvml.Instance) bool { return len(i.Compute) == 0 }

// geometryBlocked returns why instances of the GPU cannot be changed, or "".
func (n *inventory) geometryBlocked(g nvml.GPU) string {
	if g.Virtualization == nvml.VGPUGuest {
		return vGPUGuest
	}
	if unit := n.conflictingUnit(); unit != "" {
		return unit + " is enabled and also sets MIG; `systemctl mask --now " + unit + "` leaves MIG to dcm, see dcm-nvidia(7)"
	}
	return ""
}

// modeBlocked returns why MIG cannot be switched on a GPU that needs a reset for it, or "".
// Instances need no reset.
func (n *inventory) modeBlocked(a partition.Address, g nvml.GPU) string {
	const then = "; if MIG is on, dcm can change its instances here"
	if g.Virtualization == nvml.Passthrough {
		return "MIG needs a reset, which a virtual machine cannot do for a passed-through GPU: set the mode on the host" + then
	}
	if _, err := os.Stat(n.host.AttributePath(a, "reset")); errors.Is(err, fs.ErrNotExist) {
		return "MIG needs a reset, and the kernel has none for this GPU" + then
	}
	if n.host.holdingModule(a) != nil && HasConsole(n.host.Sys) {
		return "MIG needs a reset, and the text console (see /sys/class/vtconsole) keeps " + DRMModule + " loaded, which holds the GPU" + then
	}
	return ""
}
