package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/engine/reboot"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/systemd"
)

// wish is the definition of a profile. If the definition changes, the host may be rebooted again
// for the same name.
func wish(p partition.Profile) string { return config.FormatProfile(p) }

func rebootRecord(h *host.Host) string { return h.Path("var/lib/dcm/reboot.json") }

// rebooter reboots the host for the daemon. It is a [daemon.Host].
type rebooter struct {
	host  *host.Host
	ask   func(context.Context) error // [systemd.Reboot]
	lasts func() error                // why the record may not outlive the reboot
}

// keeping returns the directory of the record.
func keeping(h *host.Host) reboot.Host {
	return reboot.Host{Dir: h.Path("var/lib/dcm"), Proc: h.Path("proc"), Sys: h.Path("sys")}
}

func (r rebooter) Reboot(ctx context.Context, p partition.Profile, why string) error {
	path := rebootRecord(r.host)
	last, err := reboot.In(path).Read()
	if err != nil {
		return err
	}
	next := reboot.Record{Wish: wish(p), Why: why, Boot: r.host.BootID(), Time: time.Now()}
	if next.Boot == "" {
		return errors.New("refusing to reboot: cannot read the boot id of the kernel (would risk a reboot loop)")
	}
	if err := reboot.May(last, next); err != nil {
		return err
	}
	if err := r.lasts(); err != nil {
		return err
	}
	if err := reboot.In(path).Write(next); err != nil {
		return err
	}
	err = r.ask(ctx)
	if errors.Is(err, systemd.ErrNoReboot) { // it certainly did not happen
		return errors.Join(err, restore(path, last))
	}
	return err
}

// restore writes the earlier record again.
func restore(path string, last *reboot.Record) error {
	if last != nil {
		return reboot.In(path).Write(*last)
	}
	return os.Remove(path)
}

// reboots returns how the host is rebooted. It never reboots for another tree.
func reboots(h *host.Host) func(context.Context) error {
	if h.Here() {
		return systemd.Reboot
	}
	return func(context.Context) error {
		return fmt.Errorf("%w: %w", systemd.ErrNoReboot, host.ErrOtherRoot)
	}
}

func (r rebooter) Reached(p partition.Profile) error {
	return reboot.Reached(rebootRecord(r.host), wish(p))
}

// atBoot reports whether this is the first run of a boot, and the host was rebooted for this
// definition of the profile with reboot = "once". Then the run may reload the driver, although the
// configuration forbids that while the host is in use. A reboot is requested after a run, so the
// first run of a boot always follows it.
func atBoot(h *host.Host, first bool, cfg *config.Config) (bool, error) {
	if !first || cfg.Reboot != config.Once || cfg.ReloadDriver {
		return false, nil
	}
	last, err := reboot.In(rebootRecord(h)).Read()
	return last != nil && last.Wish == wish(cfg.Profile), err
}
