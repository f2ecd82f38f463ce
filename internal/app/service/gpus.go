package service

import (
	"context"

	"dcm/internal/app/plan"
	"dcm/internal/app/reservations"
	"dcm/internal/engine/apply"
	"dcm/internal/engine/config"
	"dcm/internal/engine/daemon"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/reservation"
	"dcm/internal/linux/systemd"
)

// dialPID1 connects the daemon to systemd.
func dialPID1(ctx context.Context) (daemon.PID1, error) {
	conn, err := systemd.Dial(ctx)
	if err != nil {
		return daemon.PID1{}, err
	}
	return daemon.PID1Of(conn), nil
}

// dialToWait connects the daemon to systemd to wait for changes of units.
func dialToWait(ctx context.Context) (daemon.PID1, error) {
	conn, err := systemd.DialToWait(ctx)
	if err != nil {
		return daemon.PID1{}, err
	}
	return daemon.PID1Of(conn), nil
}

// watched is the hardware of this host. It is a [daemon.GPUReader].
type watched struct {
	host   *host.Host
	node   *gpu.Node
	looked *deviceCache
	config func() *config.Config
	acl    *deviceACL
	found  func(gpu.Usage, []gpu.Device) // called with the use of the GPUs before a change
}

func (w watched) DriverUnloaded() bool {
	last, err := runstate.ReadRun(w.host.Runtime())
	return err == nil && apply.DriverUnloaded(last, w.host.BootID(), w.node.Drivers())
}

func (w watched) Observe(ctx context.Context, p partition.Profile) (daemon.Observation, error) {
	w.acl.refreshIfChanged(ctx)
	devices, err := w.node.Wait(ctx)
	look := daemon.Observation{Fingerprint: gpu.Fingerprint(devices), Present: addresses(devices)}
	if err != nil {
		return look, err
	}
	w.looked.put(devices)
	look.Published = func() bool { return reservations.ListIsOf(w.host, devices) }
	d, err := apply.Compare(devices, p)
	if err != nil || len(d.Steps) == 0 {
		return look, err
	}
	if err := d.Judge(reservation.Fits(w.host, w.config().Reservations)); err != nil {
		return look, err
	}
	d, u, err := plan.WithUse(ctx, w.host, w.config(), d, w.node)
	if err == nil {
		w.found(u, devices)
	}
	for _, c := range d.Steps.Changes(d.GPUs) {
		look.GPUs = append(look.GPUs, c.GPU)
	}
	look.Diff, look.Scope, look.Users = len(d.Steps), plan.Scope(w.host, w.config(), d), d.Users()
	if err == nil {
		look.Blocking, err = d.Blockers(u)
	}
	return look, err
}

// addresses returns the GPUs that can be partitioned; nil if no device was read.
func addresses(devices []gpu.Device) []partition.Address {
	if devices == nil {
		return nil
	}
	out := []partition.Address{}
	for _, g := range gpu.Partitionable(devices) {
		out = append(out, g.Address)
	}
	return out
}

func (w watched) Inventory(ctx context.Context) daemon.Observation {
	w.acl.refreshIfChanged(ctx)
	devices, err := w.node.Devices(ctx)
	if err != nil && len(devices) == 0 {
		return daemon.Observation{Fingerprint: err.Error()}
	}
	return daemon.Observation{Present: addresses(devices), Fingerprint: gpu.Fingerprint(devices)}
}

func (w watched) Glance() string { return w.node.Watch().PollFingerprint() }

// gpuUse is the use of the GPUs of this host. It is a [daemon.UseWatcher].
type gpuUse struct{ node *gpu.Node }

func (g gpuUse) AwaitExit(ctx context.Context, holders []runstate.Holder) error {
	pids := make([]int, len(holders))
	for i, h := range holders {
		pids[i] = h.PID
	}
	return gpu.WaitAnyExit(ctx, pids)
}

func (g gpuUse) Use(ctx context.Context, before runstate.Use) (runstate.Use, error) {
	u, err := g.node.Usage(ctx)
	return apply.UseNow(before, u), err
}

func (g gpuUse) AwaitUseBelow(ctx context.Context, than runstate.Use) error {
	return g.node.WaitUsage(ctx, func(u gpu.Usage) bool { return than.Eased(apply.UseNow(than, u)) })
}
