package service

import (
	"context"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"dcm/internal/engine/apply"
	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/procstat"
	"dcm/internal/sanitize"
)

// foresee returns fits with a warning about partitions that will have no device node.
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

// unitDeviceTimeout is the device-timeout that the unit's TimeoutStartSec= allows for.
const unitDeviceTimeout = time.Minute

// beyond returns how long a run with an undo may take at most, if device-timeout is above
// unitDeviceTimeout, otherwise 0. systemd never shortens a timeout at a notification, so a
// needless one would override the administrator's setting.
func beyond(o apply.Options) time.Duration {
	if o.DeviceTimeout <= unitDeviceTimeout {
		return 0
	}
	once := o.DeviceTimeout + 2*o.StepTimeout + o.ReloadTimeout + o.DeviceTimeout
	return 2 * once
}

func options(cfg *config.Config) apply.Options {
	return apply.Options{
		Rollback:      cfg.OnFailure == config.Rollback,
		EachGPU:       cfg.UnitOfChange == config.GPU,
		ReloadDriver:  cfg.ReloadDriver,
		DeviceTimeout: cfg.DeviceTimeout,
		StepTimeout:   stepTimeout,
		ReloadTimeout: reloadTimeout,
		SettleDelay:   settleDelay,
	}
}

// identity returns a report with the ids of this run and this boot.
func identity(h *host.Host) runstate.Run {
	return runstate.Run{ID: sanitize.Env("INVOCATION_ID"), Boot: h.BootID(), PID: os.Getpid()}
}

// How long one step may take. amd-smi allows a memory change 140 s; AMD's own
// sample shows about 90 s for it. No figures are published for a compute switch.
const (
	stepTimeout   = 60 * time.Second
	reloadTimeout = 180 * time.Second
)

// settleDelay is the time after which a mode that NVIDIA's driver reverts has been reverted.
// No figures are published.
const settleDelay = 1500 * time.Millisecond

// changedSince reports whether a file was installed after a process had started, which has the directory in
// /proc. It is false if that cannot be read.
func changedSince(file, process string) bool {
	var info unix.Stat_t
	began := procstat.Started(process)
	return !began.IsZero() && unix.Stat(file, &info) == nil && time.Unix(info.Ctim.Unix()).After(began)
}

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
