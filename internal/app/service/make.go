package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"dcm/internal/app/reservations"
	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
	"dcm/internal/gpu"
	"dcm/internal/gpu/made"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/filelock"
)

// Make is what dcm-make@NAME.service runs at its start: it creates a MIG instance for a lease, or for a
// service that is about to start, or it switches the compute mode of a GPU.
func Make(ctx context.Context, h *host.Host, log *slog.Logger, name string) error {
	if err := h.NeedRoot("changing GPUs"); err != nil {
		return err
	}
	if s, err := made.ParseService(name); err == nil {
		return makeForService(ctx, h, log, s)
	}
	n, err := made.Parse(name)
	if err != nil {
		return exitcode.With(exitcode.Usage, err)
	}
	release, err := lockToMake(h)
	if err != nil {
		return exitcode.With(exitcode.Transient, err)
	}
	defer release()
	if n.IsMode() {
		if err := newSwitcher(h, log).Make(context.WithoutCancel(ctx), n); err != nil { // as in create
			return err
		}
		log.Info(fmt.Sprintf("%s is in %s for leases", n.GPU, n.Profile))
		return nil
	}
	return create(ctx, newMaker(h, log), n)
}

// create creates an instance. A request to stop must not leave half of one.
func create(ctx context.Context, m made.Maker, n made.Name) error {
	if err := m.Make(context.WithoutCancel(ctx), n); err != nil {
		return err
	}
	m.Log.Info(fmt.Sprintf("%s of %s is ready at slot %d", n.Profile, n.GPU, n.Start), "unit", n.Lease)
	return nil
}

// Unmake is what dcm-make@NAME.service runs after its stop: it destroys the instance, or switches the GPU
// back.
func Unmake(ctx context.Context, h *host.Host, log *slog.Logger, name string) error {
	if err := h.NeedRoot("changing GPUs"); err != nil {
		return err
	}
	undo, err := undoing(h, log, name)
	if err != nil {
		return exitcode.With(exitcode.Usage, err)
	}
	release, err := lockToUnmake(h)
	if err != nil {
		return exitcode.With(exitcode.Transient, err)
	}
	defer release()
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), unmakeTimeout)
	defer cancel()
	if err := undo(limit); err != nil {
		return exitcode.With(exitcode.Transient, err)
	}
	return nil
}

// unmakeTimeout is how long the destruction of an instance that a process uses is repeated. The lock
// is held so long, and runs wait for it.
const unmakeTimeout = 20 * time.Second

// unmakeDelay is the delay between two attempts.
const unmakeDelay = time.Second

// undoing returns what undoes the change that a name describes: of an instance of a lease, the instances of a
// service, or a mode.
func undoing(h *host.Host, log *slog.Logger, name string) (func(context.Context) error, error) {
	if s, err := made.ParseService(name); err == nil {
		return func(ctx context.Context) error { return newMaker(h, log).UnmakeOf(ctx, s) }, nil
	}
	n, err := made.Parse(name)
	if err != nil {
		return nil, err
	}
	if n.IsMode() {
		return func(ctx context.Context) error { return newSwitcher(h, log).Unmake(ctx, n) }, nil
	}
	return func(ctx context.Context) error { return newMaker(h, log).Unmake(ctx, n) }, nil
}

func newMaker(h *host.Host, log *slog.Logger) made.Maker {
	_, node, publish := openToMake(h, log)
	return made.Maker{
		Claims: host.Claims(h), GPUs: migNode{node}, Publish: publish,
		Retry: gpu.IsTransient, Delay: unmakeDelay, Log: log,
	}
}

func newSwitcher(h *host.Host, log *slog.Logger) made.Switcher {
	cfg, node, publish := openToMake(h, log)
	return made.Switcher{
		Claims: host.Claims(h), GPUs: modeNode{node, cfg},
		// A claim of a mode changes what a read returns, also without a switch.
		Publish: func(ctx context.Context) error { node.devices = nil; return publish(ctx) },
		Prove:   checkProbe{node.Node, attachment{h, log}.begin}.begin,
		Retry: func(err error) bool {
			_, used := errors.AsType[*made.InUseError](err)
			return used || gpu.IsTransient(err)
		},
		Delay: unmakeDelay, Log: log,
	}
}

// openToMake returns the configuration, the GPUs and the function that publishes their partitions.
func openToMake(h *host.Host, log *slog.Logger) (*config.Config, *readNode, func(context.Context) error) {
	cfg, _ := h.Effective() // without a configuration the libraries have their usual places
	node := &readNode{Node: host.OpenNodeForRun(h, cfg)}
	return cfg, node, reservations.Publisher{Host: h, Node: node.Node, Devices: node.last, Log: log}.PublishParts
}

// readNode is a node that keeps the devices of the last read until a change. A read takes a driver's library
// long.
type readNode struct {
	*gpu.Node
	devices []gpu.Device // nil: none were read since the last change
}

// Devices reads the devices.
func (n *readNode) Devices(ctx context.Context) ([]gpu.Device, error) {
	devices, err := n.Node.Devices(ctx)
	if n.devices = nil; err == nil {
		n.devices = devices
	}
	return devices, err
}

// last returns the devices of the last read, or reads them.
func (n *readNode) last(ctx context.Context) ([]gpu.Device, error) {
	if n.devices != nil {
		return n.devices, nil
	}
	return n.Devices(ctx)
}

// Execute changes the GPUs.
func (n *readNode) Execute(ctx context.Context, steps partition.Steps, onStep gpu.StepFunc) error {
	n.devices = nil
	return n.Node.Execute(ctx, steps, onStep)
}

// lockToMake excludes runs, and other changes of instances by leases. The daemon, which holds the lock
// of leases, waits for the caller, so that a run that begins now waits for both. It returns an error if a
// run has begun.
func lockToMake(h *host.Host) (release func(), err error) {
	release, err = filelock.Lock(h.Locks().Make())
	if err != nil {
		return nil, err
	}
	running, err := filelock.Held(h.Locks().Run())
	if err == nil && running {
		err = errRunning
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

var errRunning = errors.New("the GPUs are being partitioned")

// lockToUnmake is lockToMake, but waits for the end of a run, which holds the lock of leases.
func lockToUnmake(h *host.Host) (release func(), err error) {
	for {
		release, err = lockToMake(h)
		if !errors.Is(err, errRunning) {
			return release, err
		}
		ended, err := filelock.Lock(h.Locks().Leases())
		if err != nil {
			return nil, err
		}
		ended()
	}
}

// migNode changes the instances of a node. It is a [made.GPUs].
type migNode struct{ node *readNode }

func (m migNode) Read(ctx context.Context, a partition.Address) (made.State, error) {
	devices, err := m.node.Devices(ctx)
	for _, d := range devices {
		switch {
		case d.Address != a:
			continue
		case d.SkipReason != "":
			return made.State{}, fmt.Errorf("%s: %s", a, d.SkipReason)
		case d.MIG == nil || d.MIG.Off:
			return made.State{}, fmt.Errorf("%s: %w", a, made.ErrNoInstances)
		}
		s := made.State{Offered: d.OfferedProfiles(), Instances: d.MIG.Instances, Nodes: make(map[int][]string)}
		for _, p := range d.Parts {
			s.Nodes[p.Start] = append(append([]string{}, p.CompanionNodes...), p.RenderNode())
		}
		return s, nil
	}
	if err != nil {
		return made.State{}, err
	}
	return made.State{}, fmt.Errorf("%s: %w", a, made.ErrNoInstances)
}

func (m migNode) Create(ctx context.Context, a partition.Address, one partition.Instance, kept []partition.Instance) error {
	return m.execute(ctx, partition.CreateInstances, a, one, kept)
}

func (m migNode) Destroy(ctx context.Context, a partition.Address, one partition.Instance, kept []partition.Instance) error {
	return m.execute(ctx, partition.DestroyInstances, a, one, kept)
}

func (m migNode) execute(ctx context.Context, kind partition.Kind, a partition.Address, one partition.Instance, kept []partition.Instance) error {
	step := partition.Step{Kind: kind, GPU: a, MIG: &partition.MIG{Instances: []partition.Instance{one}}, Kept: &partition.MIG{Instances: kept}}
	return m.node.Execute(ctx, partition.Steps{step}, func(partition.Step, bool, error) {})
}
