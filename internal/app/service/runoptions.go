package service

import (
	"context"
	"log/slog"
	"os"
	"time"

	"dcm/internal/engine/apply"
	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/sanitize"
)

// foresee is fits, and warns before of partitions that will have no device node.
func foresee(h *host.Host, fits func([]partition.GPU) error, rec *apply.Recorder) func([]partition.GPU) error {
	return func(after []partition.GPU) error {
		if short := host.Shortage(h, after); short != nil {
			rec.Warn(short.Text, "hint", short.Hint)
		}
		if fits == nil {
			return nil
		}
		return fits(after)
	}
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

// How long one step may take. amd-smi allows a memory change 140 s; AMD's own
// sample shows about 90 s for it. No figures are published for a compute switch.
const (
	stepTimeout   = 60 * time.Second
	reloadTimeout = 180 * time.Second
)

// userspaceStart returns when PID 1 started, the zero time if it does not answer.
func userspaceStart(ctx context.Context, h *host.Host, log *slog.Logger) time.Time {
	conn, err := h.Dial(ctx)
	if err != nil {
		log.Warn(err.Error())
		return time.Time{}
	}
	defer conn.Close()
	start, err := conn.Manager.UserspaceStart(ctx)
	if err != nil {
		log.Warn(err.Error())
	}
	return start
}
