package service

import (
	"context"
	"log/slog"
	"os"
	"time"

	"dcm/internal/app/host"
	"dcm/internal/app/reservations"
	"dcm/internal/engine/apply"
	"dcm/internal/engine/config"
	"dcm/internal/engine/config/selection"
	"dcm/internal/engine/event"
	"dcm/internal/engine/runstate"
	"dcm/internal/exitcode"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/atomicfile"
	"dcm/internal/linux/systemd"
	"dcm/internal/sanitize"
)

// How long one step may take. amd-smi allows a memory change 140 s; AMD's own
// sample shows about 90 s for it. No figures are published for a compute switch.
const (
	stepTimeout   = 60 * time.Second
	reloadTimeout = 180 * time.Second
)

// Oneshot is what dcm-apply.service runs: it puts the selected profile on the GPUs.
func Oneshot(ctx context.Context, h *host.Host, log *slog.Logger) error {
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
	if err := atomicfile.Sweep(h.Path("run/dcm", runstate.RunFile)); err != nil {
		log.Warn(err.Error())
	}
	last, err := runstate.ReadRun(h.Runtime())
	if err != nil {
		log.Warn(err.Error()) // it is about to be replaced
	}
	self := identity(h)
	self.Totals = runstate.Since(last, self.Boot)
	self.Idle = runstate.IdleSince(last, self.Boot)
	self.Pending = runstate.PendingSince(last, self.Boot)
	state, err := runstate.ReadState(h.Runtime())
	if err != nil {
		log.Warn(err.Error())
	}
	half := apply.HalfReloaded(last, self.Boot)
	self.Unloaded = half && !h.Node(nil).Loaded()
	self.Asked = runstate.ForRun(state, last, self.Boot, func() time.Time { return userspaceStart(ctx, h, log) })
	log = log.With("run", self.ID)
	history := newHistoryWriter(h, log)
	rec := apply.NewRecorder(self, log, func(r runstate.Run) {
		if err := runstate.RunIn(h.Runtime()).Write(r); err != nil {
			log.Error(err.Error())
		}
		history.note(r)
	})
	cfg, broken, err := selection.Effective(config.DefaultPaths(h.Root))
	node := cachingNode{h.NodeForRun(cfg, woken(log)), new(deviceCache)}
	share := reservations.Publisher{Host: h, Node: node.Node, Devices: node.Devices, Log: log}
	defer func() { share.AfterRun(ctx, rec.Run()) }()
	if self.Unloaded && (err != nil || cfg.Selected == "") {
		if err := bringBack(ctx, h, rec, log); err != nil {
			return err
		}
	}
	if err != nil {
		share.ReadReservations()
		rec.Refuse("", runstate.Error{Text: err.Error(), Cure: "repair the configuration; dcm check shows what is wrong"})
		log.Error("the configuration cannot be used, and the GPUs are left alone:\n"+err.Error(), "error", err.Error(), event.ConfigRejected.Attr())
		return exitcode.With(exitcode.Config, nil)
	}
	share.Reserved = cfg.Reservations
	rec.Source(cfg.Source, mistakes(log, broken))
	removeModprobeConf(h, cfg, log)
	if cfg.Selected == "" {
		rec.Nothing()
		log.Info("no profile is selected; the GPUs are left alone")
		return nil
	}
	opt := options(cfg)
	if now, err := atBoot(h, last == nil, cfg); err != nil {
		log.Warn(err.Error())
	} else if now {
		opt.ReloadDriver = true
		log.Info("the driver may be reloaded this once, since the host was rebooted for it")
	}
	if more := beyond(opt); more > 0 {
		if err := systemd.NewNotifier(os.Getenv).ExtendTimeout(more); err != nil {
			log.Warn(err.Error())
		}
	}
	opt.Load = half
	opt.Fits = foresee(h, h.Fits(cfg.Reservations), rec)
	run := apply.Run(ctx, node, cfg.Profile, opt, rec)
	if run.Result.OK() {
		writeModprobeConf(h, cfg, log)
	}
	return told(log, run)
}

// userspaceStart returns when PID 1 started, the zero time if it does not answer.
func userspaceStart(ctx context.Context, h *host.Host, log *slog.Logger) time.Time {
	conn, err := h.Dial(ctx)
	if err != nil {
		log.Warn(err.Error())
		return time.Time{}
	}
	defer conn.Close()
	start, err := conn.UserspaceStart(ctx)
	if err != nil {
		log.Warn(err.Error())
	}
	return start
}

// foresee is fits, and tells beforehand of partitions that will have no device node.
func foresee(h *host.Host, fits func([]partition.GPU) error, rec *apply.Recorder) func([]partition.GPU) error {
	return func(after []partition.GPU) error {
		if short := h.Short(after); short != nil {
			rec.Warn(short.Text, "cure", short.Cure)
		}
		if fits == nil {
			return nil
		}
		return fits(after)
	}
}

// mistakes tells of a configuration in whose place the last good one is in force.
func mistakes(log *slog.Logger, broken error) string {
	if broken == nil {
		return ""
	}
	log.Error("the configuration cannot be used, and the last good one stays in force:\n"+broken.Error(), "error", broken.Error(), event.ConfigRejected.Attr())
	return broken.Error()
}

// usual is the device-timeout that the unit's TimeoutStartSec= reckons with.
const usual = time.Minute

// beyond is how long a run may take, with every step at its limit and then going
// back, when device-timeout is raised above what TimeoutStartSec= reckons with; 0
// when it is not. systemd never shortens a timeout at a notification, so that
// without need it would overrule what an administrator set.
func beyond(o apply.Options) time.Duration {
	if o.DeviceTimeout <= usual {
		return 0
	}
	once := o.DeviceTimeout + 2*o.StepTimeout + o.ReloadTimeout + o.DeviceTimeout
	return 2 * once
}

func options(cfg *config.Config) apply.Options {
	return apply.Options{
		Rollback:      cfg.OnFailure == config.Rollback,
		ReloadDriver:  cfg.ReloadDriver,
		DeviceTimeout: cfg.DeviceTimeout,
		StepTimeout:   stepTimeout,
		ReloadTimeout: reloadTimeout,
	}
}

// identity is what ties a report to this run of the unit and this boot.
func identity(h *host.Host) runstate.Run {
	return runstate.Run{ID: sanitize.Env("INVOCATION_ID"), Boot: h.BootID(), PID: os.Getpid()}
}
