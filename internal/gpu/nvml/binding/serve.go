package binding

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"dcm/internal/gpu/nvml"
	"dcm/internal/gpu/partition"
	"dcm/internal/worker/sandbox"
)

// Serve executes a request. The library stays loaded, so the process should end soon.
func Serve(r nvml.Request, trust sandbox.Trust, roots Roots) nvml.Reply {
	var reply nvml.Reply
	err := r.Check()
	if err == nil {
		err = driven(roots.Sys)
	}
	if err == nil {
		err = serve(r, trust, roots, &reply)
	}
	reply.Error = nvml.AsFailure(err)
	if r.Looks() {
		roots.uncapped(&reply)
	}
	forbidden(&reply, roots.Dev)
	return reply
}

// forbidden changes "not found" into "no permission" if this process cannot open all nodes
// of GPUs: the library does not list such a GPU, and its node is unknown. It opens no node,
// since an open makes the driver retry a GPU that did not come up. The error names the node,
// since the driver's parameters may give it to another user than root.
func forbidden(reply *nvml.Reply, dev string) {
	nodes, _ := filepath.Glob(filepath.Join(dev, "nvidia[0-9]*")) // a constant pattern has no error
	nodes = append(nodes, filepath.Join(dev, control))
	at := slices.IndexFunc(nodes, func(node string) bool {
		err := unix.Access(node, unix.R_OK|unix.W_OK)
		return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES)
	})
	if at < 0 {
		return
	}
	failures := []*nvml.Failure{reply.Error}
	for _, g := range reply.GPUs {
		failures = append(failures, g.Error)
	}
	for _, f := range failures {
		if f != nil && (f.Kind == nvml.NoSuchGPU || f.Status == nvml.StatusNoPermission && f.Kind == nvml.NoPermission) {
			f.Kind, f.Text = nvml.NoPermission, f.Text+"; no permission to open "+nodes[at]
		}
	}
}

// driven returns an error if the driver is not loaded. The library would load it and create
// nodes.
func driven(sys string) error {
	if _, err := os.Stat(filepath.Join(sys, "module/nvidia")); err != nil {
		return nvml.Fail(nvml.NoDriver, "the nvidia driver is not loaded: %w", err)
	}
	return nil
}

func serve(r nvml.Request, trust sandbox.Trust, roots Roots, reply *nvml.Reply) error {
	l, err := load(r.Library, trust)
	if l != nil {
		reply.Library, reply.Missing = l.file, l.lacks
		defer func() { reply.Calls = l.calls }()
	}
	if err != nil {
		return err
	}
	if err := l.call(symInit, l.initialise); err != nil {
		return roots.nodeless(err)
	}
	l.identify(reply)
	if r.Looks() {
		for _, a := range r.GPUs {
			reply.GPUs = append(reply.GPUs, look(l, a, r.Usage))
		}
	} else {
		err = l.change(r, reply)
	}
	// A failed shutdown does not undo what was done and read back.
	_ = l.call(symShutdown, l.shutDown)
	return err
}

func (l *library) identify(reply *nvml.Reply) {
	const most = 256
	b := newBuffer()
	if l.call(symDriver, func() uint32 { return l.driverVersion(&b[0], most) }) == nil {
		reply.Driver = b.text(0, most)
	}
	b = newBuffer()
	if l.call(symVersion, func() uint32 { return l.ownVersion(&b[0], most) }) == nil {
		reply.NVML = b.text(0, most)
	}
}

// change executes a change and reads the GPU back.
func (l *library) change(r nvml.Request, reply *nvml.Reply) error {
	var err error
	switch r.Do {
	case nvml.Mode:
		err = setMode(l, r.GPU, *r.On)
	case nvml.Clear:
		err = destroyInstances(l, r.GPU, r.Instances)
	default:
		err = createInstances(l, r.GPU, r.Instances)
	}
	now := look(l, r.GPU, false)
	reply.GPUs = []nvml.GPU{now}
	if err == nil && now.Error != nil {
		err = now.Error
	}
	if err == nil {
		err = readBack(r, now)
	}
	return err
}

// device returns the handle of the GPU at an address. It is valid until the GPU's mode
// changes.
func (l *library) device(a partition.Address) (uintptr, error) {
	var device uintptr
	err := l.call(symByBusID, func() uint32 { return l.byBusID(string(a), &device) })
	switch statusOf(err) {
	case nvml.StatusNotFound, nvml.StatusInvalidArgument:
		return 0, &nvml.Failure{Kind: nvml.NoSuchGPU, Text: "the driver knows no GPU at " + string(a), Status: statusOf(err)}
	}
	if err == nil && device == 0 {
		err = nvml.Fail(nvml.Garbage, "%s returned no handle for %s", symByBusID, a)
	}
	return device, err
}
