package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"dcm/internal/app/reservations"
	"dcm/internal/engine/config"
	"dcm/internal/engine/event"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
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
	release, err := lockToMake(h, lockFor(n))
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
	return m.Make(context.WithoutCancel(ctx), n)
}

// logInstance logs that an instance exists from now on, or that it does not. dcm usage reads the entries of
// services, and the partitions of a lease in the description of its unit.
func logInstance(log *slog.Logger, cfg *config.Config, n made.Name, exists bool) {
	text := fmt.Sprintf("%s of %s is ready at slot %d", n.Profile, n.GPU, n.Start)
	partitions := []string{runstate.PartName(n.GPU, n.Start)}
	if !exists {
		text, partitions = fmt.Sprintf("%s at slot %d of %s is destroyed", n.Profile, n.Start, n.GPU), nil
	}
	attrs := []any{"unit", n.Lease}
	if n.OfService() {
		reservation := n.Lease // if it was removed
		if cfg != nil {
			if r, ok := config.MakesFor(cfg.Reservations, n.Lease); ok {
				reservation = r.Name
			}
		}
		attrs = append(attrs, event.Reserved.Attr(), "reservation", reservation, "partitions", partitions)
	}
	log.Info(text, attrs...)
}

// Unmake is what dcm-make@NAME.service runs after its stop: it destroys the instance, or switches the GPU
// back.
func Unmake(ctx context.Context, h *host.Host, log *slog.Logger, name string) error {
	if err := h.NeedRoot("changing GPUs"); err != nil {
		return err
	}
	undo, lock, err := undoing(h, log, name)
	if err != nil {
		return exitcode.With(exitcode.Usage, err)
	}
	release, err := lockToUnmake(h, lock)
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

// unmakeTimeout is how long the destruction of an instance that a process uses is repeated. The locks
// are held so long, and runs wait for them.
const unmakeTimeout = 20 * time.Second

// unmakeDelay is the delay between two attempts.
const unmakeDelay = time.Second

// undoing returns what undoes the change that a name describes, of an instance of a lease, the instances of a
// service, or a mode, and the lock on runs that it needs.
func undoing(h *host.Host, log *slog.Logger, name string) (func(context.Context) error, lock, error) {
	if s, err := made.ParseService(name); err == nil {
		return func(ctx context.Context) error { return newMaker(h, log).UnmakeOf(ctx, s) }, filelock.LockShared, nil
	}
	n, err := made.Parse(name)
	if err != nil {
		return nil, nil, err
	}
	if n.IsMode() {
		return func(ctx context.Context) error { return newSwitcher(h, log).Unmake(ctx, n) }, lockFor(n), nil
	}
	return func(ctx context.Context) error { return newMaker(h, log).Unmake(ctx, n) }, lockFor(n), nil
}

func newMaker(h *host.Host, log *slog.Logger) made.Maker {
	cfg, _ := h.Effective() // without a configuration the libraries have their usual places
	nodes := migNodes{h, cfg, make(map[partition.Address]*oneGPU)}
	return made.Maker{
		Claims: host.Claims(h), GPUs: nodes,
		Lock: func(a partition.Address) (func(), error) { return filelock.Lock(h.Locks().MakeOn(a)) },
		Publish: func(ctx context.Context, a partition.Address) error {
			release, err := filelock.Lock(h.Locks().Publish())
			if err != nil {
				return err
			}
			defer release()
			node := nodes.on(a)
			return reservations.Publisher{Host: h, Node: node.Node, Devices: node.Devices, GPU: a, Log: log}.PublishParts(ctx)
		},
		Changed: func(n made.Name, exists bool) { logInstance(log, cfg, n, exists) },
		Retry:   gpu.IsTransient, Delay: unmakeDelay, Log: log,
		Users: nodes.users,
	}
}

func newSwitcher(h *host.Host, log *slog.Logger) made.Switcher {
	cfg, _ := h.Effective()
	node := host.OpenNodeForRun(h, cfg)
	return made.Switcher{
		Claims: host.Claims(h), GPUs: modeNode{node, cfg},
		Publish: reservations.Publisher{Host: h, Node: node, Devices: node.Devices, Log: log}.PublishParts,
		Prove:   checkProbe{node, attachment{h, log}.begin}.begin,
		Retry: func(err error) bool {
			_, used := errors.AsType[*made.InUseError](err)
			return used || gpu.IsTransient(err)
		},
		Delay: unmakeDelay, Log: log,
	}
}

// lock locks a file, see [filelock].
type lock func(path string) (release func(), err error)

// lockFor returns how the lock on runs is taken: instances of different GPUs change concurrently.
func lockFor(n made.Name) lock {
	if n.IsMode() {
		return filelock.Lock
	}
	return filelock.LockShared
}

// lockToMake excludes runs, and other changes by leases unless both share the lock. The daemon, which holds the
// lock of leases, waits for the caller, so that a run that begins now waits for both. It returns an error if a
// run has begun.
func lockToMake(h *host.Host, exclude lock) (release func(), err error) {
	release, err = exclude(h.Locks().Make())
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
func lockToUnmake(h *host.Host, exclude lock) (release func(), err error) {
	for {
		release, err = lockToMake(h, exclude)
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
