package service

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"dcm/internal/app/reservations"
	"dcm/internal/engine/apply"
	"dcm/internal/engine/config"
	"dcm/internal/engine/config/selection"
	"dcm/internal/engine/event"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/exitcode"
	"dcm/internal/leases/reservation"
	"dcm/internal/linux/atomicfile"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// Oneshot is what dcm-apply.service runs: it puts the selected profile on the GPUs.
func Oneshot(ctx context.Context, h *host.Host, log *slog.Logger) error {
	return runOnce(ctx, h, log, nil)
}

// runOnce makes a run. change is the change of single GPUs that it is for; nil: of all GPUs.
func runOnce(ctx context.Context, h *host.Host, log *slog.Logger, change *runstate.Change) error {
	if err := h.NeedRoot("changing GPUs"); err != nil {
		return err
	}
	if err := os.MkdirAll(h.Runtime(), 0o755); err != nil {
		return err
	}
	release, err := lockForRun(h)
	if err != nil {
		return err
	}
	defer release()
	o := newOneshot(ctx, h, log)
	o.change = change
	cfg, broken, err := selection.Effective(config.DefaultPaths(h.Root))
	o.openNode(cfg)
	defer o.publish(ctx)
	if o.unloaded && change != nil {
		return exitcode.With(exitcode.Transient, errors.New("the driver is not loaded; "+unitname.Apply+" loads it"))
	}
	if o.unloaded && (err != nil || cfg.Selected == "") {
		if err := o.loadDriver(ctx); err != nil {
			return err
		}
	}
	if err != nil {
		return o.refuse(err)
	}
	o.reservations.Reserved = cfg.Reservations
	o.recorder.Source(cfg.Source, o.reportBroken(broken))
	removeModprobeConf(h, cfg, o.log)
	if cfg.Selected == "" {
		o.recorder.Nothing()
		o.log.Info("no profile is selected; the GPUs are left alone")
		return nil
	}
	run := o.apply(ctx, cfg)
	if run.Result.OK() {
		writeModprobeConf(h, cfg, o.log)
	}
	return reportEnd(o.log, run)
}

// oneshot is one run of dcm-apply.service.
type oneshot struct {
	host         *host.Host
	log          *slog.Logger // with the run's id
	recorder     *apply.Recorder
	node         *cachingNode
	reservations reservations.Publisher
	change       *runstate.Change // of single GPUs; nil: of all

	users runstate.InstanceUsers // before the daemon requested the run

	first        bool // of this boot
	halfReloaded bool // an earlier run has ended in the middle of a driver reload
	unloaded     bool // and the driver, or another module that it unloaded, is not loaded
}

// newOneshot reads what earlier runs of this boot have left, and begins the report of this one.
func newOneshot(ctx context.Context, h *host.Host, log *slog.Logger) *oneshot {
	if err := atomicfile.Sweep(h.Path("run/dcm", runstate.RunFile)); err != nil {
		log.Warn(err.Error())
	}
	last, err := runstate.ReadRun(h.Runtime())
	if err != nil {
		log.Warn(err.Error()) // this run replaces it
	}
	state, err := runstate.ReadState(h.Runtime())
	if err != nil {
		log.Warn(err.Error())
	}
	self := identity(h)
	o := &oneshot{host: h, log: log.With("run", self.ID), first: last == nil, halfReloaded: apply.HalfReloaded(last, self.Boot)}
	o.unloaded = apply.DriverUnloaded(last, self.Boot, host.OpenNode(h, nil).Drivers())
	if state != nil && state.Boot == self.Boot && state.Phase == runstate.Applying {
		o.users = state.Users
	}
	self.Totals = runstate.Since(last, self.Boot)
	self.Idle = runstate.IdleSince(last, self.Boot)
	self.Pending = runstate.PendingSince(last, self.Boot)
	self.NoRoom = runstate.NoRoomSince(last, self.Boot)
	if o.halfReloaded {
		self.Unloaded, self.UnloadedModules = !host.OpenNode(h, nil).Drivers().Loaded(), last.UnloadedModules
	}
	self.Asked = runstate.ForRun(state, last, self.Boot, func() time.Time { return userspaceStart(ctx, h, log) }, func() bool { return h.Here() && changedSince("/proc/self/exe", "/proc/1") })
	history := newHistoryWriter(h, o.log)
	o.recorder = apply.NewRecorder(self, o.log, func(r runstate.Run) {
		if err := runstate.RunIn(h.Runtime()).Write(r); err != nil {
			o.log.Error(err.Error())
		}
		history.note(r)
	})
	return o
}

// openNode opens the hardware as the configuration says; cfg is nil if there is none.
func (o *oneshot) openNode(cfg *config.Config) {
	o.node = &cachingNode{node: host.OpenNodeForRun(o.host, cfg, woken(o.log)), log: o.log}
	o.reservations = reservations.Publisher{Host: o.host, Node: o.node.node, Devices: o.node.Devices, Log: o.log}
}

// publish publishes the partitions after the run. Then it releases clients, which have links to them.
func (o *oneshot) publish(ctx context.Context) {
	o.reservations.AfterRun(ctx, o.recorder.Run())
	o.release()
}

// refuse ends a run whose configuration cannot be used.
func (o *oneshot) refuse(err error) error {
	o.reservations.ReadReservations()
	o.recorder.Refuse("", runstate.Error{Text: err.Error(), Hint: "repair the configuration; dcm check shows what is wrong"})
	o.log.Error("the configuration cannot be used, and the GPUs are left alone:\n"+err.Error(), "error", err.Error(), event.ConfigRejected.Attr())
	return exitcode.With(exitcode.Config, nil)
}

// reportBroken logs an error of the configuration, if the last good one is effective instead.
func (o *oneshot) reportBroken(broken error) string {
	if broken == nil {
		return ""
	}
	o.log.Error("the configuration cannot be used, and the last good one stays effective:\n"+broken.Error(), "error", broken.Error(), event.ConfigRejected.Attr())
	return broken.Error()
}

// apply changes the GPUs.
func (o *oneshot) apply(ctx context.Context, cfg *config.Config) runstate.Run {
	opt := options(cfg)
	if now, err := atBoot(o.host, o.first, cfg); err != nil {
		o.log.Warn(err.Error())
	} else if now {
		opt.ReloadDriver = true
		o.log.Info("the driver may be reloaded in this run, since the host was rebooted for it")
	}
	if more := beyond(opt); more > 0 {
		if err := systemd.NewNotifier(os.Getenv).ExtendTimeout(more); err != nil {
			o.log.Warn(err.Error())
		}
	}
	opt.Load, opt.Users = o.halfReloaded, o.users
	if o.change != nil {
		opt.May, opt.Later, opt.Continuing = o.change.Concerns, o.change.Postpones, o.change.Kept
		o.reservations.Kept = o.change.Kept
	}
	opt.Fits = foresee(o.host, reservation.Fits(o.host, cfg.Reservations), o.recorder)
	return apply.Run(ctx, o.node.forRun(), cfg.Profile, opt, o.recorder)
}
