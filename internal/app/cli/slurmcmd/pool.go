package slurmcmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/exitcode"
	"dcm/internal/linux/watch"
)

// pool is the name of Slurm's reservation, which is for no unit.
const pool = "slurm"

const (
	// choiceTimeout limits the wait for the partitions of Slurm's reservation after an edit of it.
	choiceTimeout = 30 * time.Second
	// choiceQuietInterval is how long the choice must be unchanged before it is read again.
	choiceQuietInterval = 30 * time.Millisecond
)

// errNotChosen is the error for a reservation that is in the configuration but not yet in the choice of
// partitions, or in another form.
var errNotChosen = exitcode.With(exitcode.Transient, fmt.Errorf("reservation %q: dcm has not chosen its partitions after the last edit\nhint: see dcm status for the reason, and repeat the command", pool))

// awaitPool returns Slurm's reservation with the partitions that dcm has chosen for it, nil if the
// configuration has none. After an edit it waits for the choice, since the previous one has other partitions.
func awaitPool(ctx context.Context, h *host.Host) (*runstate.Reservation, error) {
	r, err := chosenPool(h)
	if !errors.Is(err, errNotChosen) || !h.Here() {
		return r, err
	}
	ctx, cancel := context.WithTimeout(ctx, choiceTimeout)
	defer cancel()
	changed, err := watch.Files(ctx, []string{h.Runtime()}, choiceQuietInterval, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	for {
		if r, err = chosenPool(h); !errors.Is(err, errNotChosen) {
			return r, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, errNotChosen
		}
	}
}

// chosenPool returns Slurm's reservation of the last choice of partitions. It returns [errNotChosen] if that
// choice is not for the settings that the configuration has now.
func chosenPool(h *host.Host) (*runstate.Reservation, error) {
	want := ""
	if cfg, _ := h.Effective(); cfg != nil { // an edit with an error changes no reservation
		for _, r := range cfg.Reservations {
			if r.Name == pool && r.Unit == "" {
				want = r.Asks()
			}
		}
	}
	found, err := lastPool(h)
	if err != nil {
		return nil, err
	}
	is := ""
	if found != nil {
		is = found.Asks
	}
	if is != want {
		return nil, errNotChosen
	}
	return found, nil
}

// lastPool returns Slurm's reservation of the last choice of partitions, nil if it has none.
func lastPool(h *host.Host) (*runstate.Reservation, error) {
	last, err := runstate.ReadReservations(h.Runtime())
	if err != nil || last == nil {
		return nil, err
	}
	at := slices.IndexFunc(last.Reservations, func(r runstate.Reservation) bool { return r.Name == pool && r.Unit == "" })
	if at < 0 {
		return nil, nil
	}
	return &last.Reservations[at], nil
}
