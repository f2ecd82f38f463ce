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

// Generator is dcm-generator: the drop-ins for the client units, from the
// configuration, into the directory that systemd gives as first argument. Where that
// is broken, the last good one of this boot is in force. Without one, as at boot, the
// clients stay unordered, and the host comes up: it is told to the kernel's log, and
// the exit status stays 0.
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

// readTimeout limits how long the generator reads. A boot and every daemon-reload wait for
// it, up to the minute and a half after which systemd kills it; it takes 10 ms.
const readTimeout = 20 * time.Second

// readWithin returns what read does or, if that takes longer than the limit, what the
// fallback does, which has the same limit. Whatever is still reading ends with the program.
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

// lastGood is what the last good configuration of this boot says, from /run, which does not
// hang.
func lastGood(h *host.Host) (systemd.Order, error) {
	cfg, err := selection.LastGood(config.DefaultPaths(h.Root))
	if err != nil {
		return systemd.Order{}, err
	}
	return reservation.Order(h, cfg), nil
}

// generated is what the generator writes.
func generated(h *host.Host, log func(slog.Level, string)) systemd.Order {
	cfg, broken, err := selection.Effective(config.DefaultPaths(h.Root))
	if broken != nil {
		log(slog.LevelError, "the configuration cannot be used, and client units are ordered as the last good one says:\n"+broken.Error())
	}
	if err != nil {
		log(slog.LevelError, "the configuration cannot be used, so client units are not ordered after dcm-apply.service:\n"+err.Error())
	}
	return order(h, cfg, log)
}

// order is what is to be written. Reservations are read on their own where the rest
// cannot be: no reserved unit starts with everything for somebody else's mistake.
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
