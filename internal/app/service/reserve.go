package service

import (
	"context"
	"errors"
	"log/slog"

	"dcm/internal/app/reservations"
	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
)

// Reserve is what dcm-reserve.service runs: it chooses again for reservations that have changed,
// while the units whose partitions change are down. The exit status is 69 only if all was written
// and a reservation cannot be met: after any other failure the daemon runs it again.
func Reserve(ctx context.Context, h *host.Host, log *slog.Logger) error {
	if err := h.NeedRoot("choosing partitions"); err != nil {
		return err
	}
	release, err := lockForRun(h)
	if err != nil {
		return err
	}
	defer release()
	node := host.OpenNode(h, nil)
	s := reservations.Publisher{Host: h, Node: node, Devices: node.Devices, Log: log}
	s.ReadReservations()
	return chosen(s.Publish(ctx))
}

func chosen(unmet, err error) error {
	switch {
	case err != nil:
		return exitcode.With(exitcode.Transient, errors.Join(unmet, err))
	case unmet != nil:
		return exitcode.With(exitcode.Permanent, unmet)
	}
	return nil
}
