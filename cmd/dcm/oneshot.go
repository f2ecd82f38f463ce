package main

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"dcm/internal/apply"
	"dcm/internal/config"
	"dcm/internal/event"
	"dcm/internal/report"
	"dcm/internal/systemd"
)

// How long one step may take. amd-smi allows a memory change 140 s; AMD's own
// sample shows about 90 s for it. No figures are published for a compute switch.
const (
	stepTimeout   = 60 * time.Second
	reloadTimeout = 180 * time.Second
)

func oneshotCmd(h *host) *cobra.Command {
	return &cobra.Command{
		Use:   "oneshot",
		Short: "Put the selected profile on the GPUs; dcm-apply.service runs this",
		Long: `Put the selected profile on the GPUs and write /run/dcm/report.json.

This is what dcm-apply.service runs. It stops and starts nothing: it refuses to
begin while a process holds a GPU. Use 'dcm apply' to have the client units
restarted around the change.`,
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error { return oneshot(c.Context(), h) },
	}
}

func oneshot(ctx context.Context, h *host) error {
	if err := h.needRoot("changing GPUs"); err != nil {
		return err
	}
	if err := os.MkdirAll(h.runtime(), 0o755); err != nil {
		return err
	}
	release, err := apply.Lock(h.lock())
	if err != nil {
		return withCode(exitTransient, err)
	}
	defer release()
	log := newLog(h.err, "dcm-apply")
	if err := report.Sweep(h.path("run/dcm", report.RunFile)); err != nil {
		log.Warn(err.Error())
	}
	last, err := report.ReadRun(h.runtime())
	if err != nil {
		log.Warn(err.Error()) // it is about to be replaced
	}
	self := identity(h)
	self.Totals = report.Since(last, self.Boot)
	log = log.With("run", self.ID)
	rec := apply.NewRecorder(self, log, func(r report.Run) {
		if err := report.Write(h.path("run/dcm", report.RunFile), r); err != nil {
			log.Error(err.Error())
		}
	})
	cfg, err := h.config()
	if err != nil {
		rec.Refuse("", report.Error{Text: err.Error(), Cure: "repair the configuration; dcm check shows what is wrong"})
		log.Error("the configuration cannot be used, and the GPUs are left alone:\n"+err.Error(), "error", err.Error(), event.ConfigRejected.Attr())
		return withCode(exitConfig, nil)
	}
	rec.Source(cfg.Source)
	unsettle(h, cfg, log)
	if cfg.Selected == "" {
		rec.Nothing()
		log.Info("no profile is selected; the GPUs are left alone")
		return nil
	}
	opt := options(cfg)
	if now, err := h.atBoot(last == nil, cfg); err != nil {
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
	opt.Load = apply.HalfReloaded(last, self.Boot)
	run := apply.Run(ctx, h.node(cfg), cfg.Profile, opt, rec)
	if run.Result.OK() {
		settle(h, cfg, log)
	}
	return told(log, run)
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
func identity(h *host) report.Run {
	return report.Run{ID: os.Getenv("INVOCATION_ID"), Boot: bootID(h), PID: os.Getpid()}
}

func bootID(h *host) string {
	id, err := os.ReadFile(h.path("proc/sys/kernel/random/boot_id"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}
