package reservations

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"dcm/internal/app/leaseservice"
	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/leases/lease"
	"dcm/internal/leases/reservation"
)

// Stale reports whether partitions have to be chosen again for reservations. The error is an
// [UnsatisfiableError] if the units that would be restarted would not come back: they are left as
// they are. If leases hold the partitions, the choice continues when they end.
func Stale(ctx context.Context, h *host.Host, list []config.Reservation, selected bool, log *slog.Logger) (bool, error) {
	changed, err := reservation.ReserveDue(h, list, selected)
	if err != nil || !changed && !reservation.Unmet(h) {
		return changed, err
	}
	if changed {
		if err := checkSpace(h.Runtime()); err != nil {
			return false, err
		}
	}
	c := choice{list: list, changed: changed}
	if c.last, err = runstate.ReadPartitions(h.Runtime()); err != nil || c.last == nil {
		return changed, err
	}
	if lacksKinds(c.last.Parts) && slices.ContainsFunc(list, func(r config.Reservation) bool { return !r.Sought.Any() }) {
		return changed, nil // the choice itself lists the kinds
	}
	look, enough := context.WithTimeout(ctx, leaseservice.HostTimeout)
	defer enough()
	devices, err := host.OpenNode(h, nil).Devices(look)
	if err != nil {
		return changed, nil // the choice itself tells of that
	}
	c.wants = wants(list, c.last.Parts, devices, slog.New(slog.DiscardHandler))
	if c.now, err = (lease.Links{Dir: h.Path("dev/dcm")}).Read(); err != nil {
		return false, err
	}
	limit, cancel := context.WithTimeout(ctx, leaseservice.HostTimeout)
	defer cancel()
	return c.awaitEmptyLeases(limit, leaseservice.NewHost(h, &config.Config{Reservations: list}, log))
}

// chooseSpace is the free space, in bytes, that a choice needs in the runtime directory: for the
// lists that it replaces, the state and the temporary files, several times over.
const chooseSpace = 512 << 10

// roomToChoose returns an error if a choice could not be written down. Units would be
// restarted needlessly for it.
func checkSpace(dir string) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	if free := fs.Bavail * uint64(fs.Bsize); free < chooseSpace {
		return fmt.Errorf("%s: no space left (found %d KiB, want %d KiB)", dir, free>>10, chooseSpace>>10)
	}
	return nil
}

// leaseSource lists the leases, and ends those without processes.
type leaseSource interface {
	ActiveLeases(ctx context.Context) (leaseservice.Active, error)
	EndEmptyScopes(ctx context.Context) // ends leases that nobody is in
}

// awaitEmptyLeases evaluates the choice, and waits for leases that have no process: no end of a
// process could be waited for later.
func (c choice) awaitEmptyLeases(ctx context.Context, l leaseSource) (bool, error) {
	for {
		t, err := l.ActiveLeases(ctx)
		if err != nil {
			return false, err
		}
		c.leasedNodes, c.leaseHolders = t.Nodes, t.Holders
		is, err := c.evaluate()
		if err == nil || len(c.leaseHolders) > 0 || len(c.leasedNodes) == 0 {
			return is, err
		}
		l.EndEmptyScopes(ctx)
		select {
		case <-t.Changed:
		case <-ctx.Done():
			// Another try may find them ended, so that it is no unsatisfiableError.
			return false, fmt.Errorf("%v; leases that nobody is in have the others, and do not end: %w", err, ctx.Err())
		}
	}
}

// choice is what a choice for reservations goes by.
type choice struct {
	list         []config.Reservation
	wants        []lease.Reservation
	changed      bool // the list is another one than was chosen for last
	last         *runstate.Partitions
	now          map[string][]string // the nodes that each has
	leasedNodes  []string            // the nodes that leases have
	leaseHolders []runstate.Holder   // who they are
}

// UnsatisfiableError is that partitions would be chosen needlessly.
type UnsatisfiableError struct {
	text    string
	lessees []runstate.Holder // whose end would help
}

func (e *UnsatisfiableError) Error() string {
	if len(e.lessees) == 0 {
		return e.text
	}
	const most = 3
	var names []string
	for _, l := range e.lessees[:min(most, len(e.lessees))] {
		names = append(names, fmt.Sprintf("%s of %s", l.Unit, l.Lessee))
	}
	if more := len(e.lessees) - most; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return e.text + "; leases have the others: " + strings.Join(names, ", ")
}

// Hint is what an administrator can do about it.
func (e *UnsatisfiableError) Hint() string {
	if len(e.lessees) == 0 {
		return "reserve less, or select a profile with more partitions"
	}
	return "wait for the end of these leases, or end them with dcm release; dcm goes on by itself"
}

// Holders are those whose end it waits for.
func (e *UnsatisfiableError) Holders() []runstate.Holder { return e.lessees }

// evaluate reports whether a choice satisfies one more reservation without leaving a current holder
// with none.
func (c choice) evaluate() (bool, error) {
	given, lack := lease.Reserve(c.last.Parts, c.wants, c.now, c.leasedNodes)
	free := given
	if lack != nil && len(c.leasedNodes) > 0 {
		free, _ = lease.Reserve(c.last.Parts, c.wants, c.now, nil)
	}
	var stuck []string
	gain, loss, waits := c.changed, false, false
	for _, r := range c.list {
		before := c.before(r.Name)
		switch {
		case r.Broken:
		case len(given[r.Name].Nodes) > 0:
			gain = gain || len(before.Partitions) == 0
		default:
			stuck = append(stuck, r.Source+": reservation "+r.Name)
			loss = loss || len(before.Partitions) > 0 || before.Asks != r.Asks()
			waits = waits || len(free[r.Name].Nodes) > 0
		}
	}
	if gain && !loss || !c.changed && !waits {
		return gain && !loss, nil
	}
	e := &UnsatisfiableError{text: fmt.Sprintf("%s cannot be met: %v", strings.Join(stuck, ", "), lack)}
	if waits {
		e.lessees = c.leaseHolders
	}
	return false, e
}

func (c choice) before(name string) runstate.Reservation {
	i := slices.IndexFunc(c.last.Reservations, func(r runstate.Reservation) bool { return r.Name == name })
	if i < 0 {
		return runstate.Reservation{}
	}
	return c.last.Reservations[i]
}
