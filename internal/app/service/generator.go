package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"dcm/internal/app/reservations"
	"dcm/internal/engine/config"
	"dcm/internal/engine/config/selection"
	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
	"dcm/internal/leases/reservation"
	"dcm/internal/linux/systemd"
)

// Generator is dcm-generator. It writes the drop-ins of the client units to the directory that
// systemd gives as first argument. If the configuration is not valid, the last good one of this
// boot is effective. Without one, as at boot, the clients are not ordered, so that the host boots:
// the error goes to the kernel's log, and the exit status is 0.
func Generator(root string, dirs []string) int {
	if len(dirs) != 1 && len(dirs) != 3 {
		fmt.Fprintln(os.Stderr, "usage: dcm-generator NORMAL-DIR [EARLY-DIR LATE-DIR]; systemd runs it, see systemd.generator(7)")
		return exitcode.Usage
	}
	log := systemd.KernelLog("/dev/kmsg", "dcm-generator", os.Stderr)
	h := &host.Host{Root: root}
	o, err := readWithin(readTimeout, log, func() (systemd.Order, error) { return generated(h, log), nil }, func() (systemd.Order, error) { return lastGood(h) })
	if err != nil {
		log(slog.LevelError, "client units are not ordered after dcm-apply.service, and reserved units are not confined: "+err.Error())
		return exitcode.Failed
	}
	if err := systemd.Generate(dirs[0], o); err != nil {
		log(slog.LevelError, "cannot write every drop-in of the client units: "+err.Error())
		return exitcode.Failed
	}
	return exitcode.OK
}

// readTimeout limits how long the generator reads: a boot and every daemon-reload wait for it.
// systemd kills it after 90 s. It usually takes 10 ms.
const readTimeout = 20 * time.Second

// readWithin returns the result of read or, if that exceeds the limit, of fallback, which has the
// same limit. A read that hangs ends with the program.
func readWithin(limit time.Duration, log func(slog.Level, string), read, fallback func() (systemd.Order, error)) (systemd.Order, error) {
	o, err := limited(limit, read)
	if !errors.Is(err, context.DeadlineExceeded) {
		return o, err
	}
	log(slog.LevelError, fmt.Sprintf("the configuration was not read within %s: writing the drop-ins of the last good one", limit))
	o, err = limited(limit, fallback)
	if err != nil {
		return o, fmt.Errorf("cannot read the last good configuration: %w", err)
	}
	return o, nil
}

func limited(limit time.Duration, read func() (systemd.Order, error)) (systemd.Order, error) {
	type result struct {
		order systemd.Order
		err   error
	}
	done := make(chan result, 1)
	go func() {
		o, err := read()
		done <- result{o, err}
	}()
	select {
	case r := <-done:
		return r.order, r.err
	case <-time.After(limit):
		return systemd.Order{}, context.DeadlineExceeded
	}
}

// lastGood returns the order of the last good configuration of this boot. It is in /run, which
// does not hang.
func lastGood(h *host.Host) (systemd.Order, error) {
	cfg, err := selection.LastGood(config.DefaultPaths(h.Root))
	if err != nil {
		return systemd.Order{}, err
	}
	return reservation.Order(h, cfg), nil
}

// generated returns what the generator writes.
func generated(h *host.Host, log func(slog.Level, string)) systemd.Order {
	cfg, broken, err := selection.Effective(config.DefaultPaths(h.Root))
	if broken != nil {
		log(slog.LevelError, "the configuration cannot be used; client units are ordered by the last good one:\n"+broken.Error())
	}
	if err != nil {
		log(slog.LevelError, "the configuration cannot be used, so client units are not ordered after dcm-apply.service:\n"+err.Error())
	}
	return order(h, cfg, log)
}

// order returns what the generator writes for a configuration. If cfg is nil, it reads the
// reservations alone: an error elsewhere must not let a reserved unit open all devices.
func order(h *host.Host, cfg *config.Config, log func(slog.Level, string)) systemd.Order {
	if cfg != nil {
		return reservation.Order(h, cfg)
	}
	all, lost := reservation.Reservations(h)
	for _, unit := range lost {
		log(slog.LevelError, reservations.Unconfined(unit))
	}
	return reservation.AddReservations(h, systemd.Order{Needs: reservation.DropinNeeds(h)}, all)
}
