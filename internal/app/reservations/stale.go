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

// Stale reports whether partitions have to be chosen again for reservations. It returns an
// [UnsatisfiableError] if units would be restarted and would not start again. If leases hold the
// partitions, the choice continues when they end.
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
	limit, cancel := context.WithTimeout(ctx, leaseservice.HostTimeout)
	defer cancel()
	devices, err := host.OpenNode(h, nil).Devices(limit)
	if err != nil {
		return changed, nil // the choice itself reports the error
	}
	c.wants = wants(list, nil, c.last.Parts, devices, nil, slog.New(slog.DiscardHandler))
	if c.now, err = (lease.Links{Dir: h.Path("dev/dcm")}).Read(); err != nil {
		return false, err
	}
	own, done := context.WithTimeout(ctx, leaseservice.HostTimeout)
	defer done()
	return c.awaitEmptyLeases(own, currentLeases{leaseservice.NewPartitions(h, &config.Config{Reservations: list}, log), h, log})
}

// chooseSpace is the free space, in bytes, that a choice needs in the runtime directory: several times
// the size of the lists that it replaces, the state and the temporary files.
const chooseSpace = 512 << 10

// checkSpace returns an error if dir has no space to store a choice of partitions. Without the check,
// units would be restarted for a choice that is then lost.
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
	EndEmptyScopes(ctx context.Context)
}

// currentLeases are the leases of this host.
type currentLeases struct {
	*leaseservice.Partitions
	host *host.Host
	log  *slog.Logger
}

func (l currentLeases) EndEmptyScopes(ctx context.Context) {
	leaseservice.EndEmptyScopes(ctx, l.host, l.log)
}

// awaitEmptyLeases evaluates the choice. It waits for the end of leases without processes, since later
// no end of a process would be reported for them.
func (c choice) awaitEmptyLeases(ctx context.Context, l leaseSource) (bool, error) {
	for {
		t, err := l.ActiveLeases(ctx)
		if err != nil {
			return false, err
		}
		c.leasedNodes, c.leaseHolders = t.Nodes, t.Holders
		stale, err := c.evaluate()
		if err == nil || len(c.leaseHolders) > 0 || len(c.leasedNodes) == 0 {
			return stale, err
		}
		l.EndEmptyScopes(ctx)
		select {
		case <-t.Changed:
		case <-ctx.Done():
			// A later attempt may find them ended, so this is no UnsatisfiableError.
			return false, fmt.Errorf("%v; leases without processes have the others, and do not end: %w", err, ctx.Err())
		}
	}
}

// choice is the input of a choice for reservations.
type choice struct {
	list         []config.Reservation
	wants        []lease.Reservation
	changed      bool // the list differs from that of the last choice
	last         *runstate.Partitions
	now          map[string][]string // reservation → its nodes
	leasedNodes  []string            // in leases
	leaseHolders []runstate.Holder   // the processes in the leases
}

// UnsatisfiableError is returned if a choice would satisfy no further reservation.
type UnsatisfiableError struct {
	text    string
	lessees []runstate.Holder // the leases whose end would help
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

// Hint returns what the administrator can do.
func (e *UnsatisfiableError) Hint() string {
	if len(e.lessees) == 0 {
		return "reserve less, or select a profile with more partitions"
	}
	return "wait for the end of these leases, or end them with dcm lease release; dcm continues by itself"
}

// Holders returns the leases whose ends the choice waits for.
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
		case r.Broken, r.Make != "":
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
