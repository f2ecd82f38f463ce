package service

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"dcm/internal/app/host"
	"dcm/internal/engine/apply"
	"dcm/internal/engine/config"
	"dcm/internal/engine/runstate"
	"dcm/internal/leases/lease"
)

// reservationsStale tells whether partitions are to be chosen anew for reservations. It is an
// [unsatisfiableError] where the units that are restarted for that would not come back: they are
// left as they are. Where that is for leases, it goes on with their end.
func reservationsStale(ctx context.Context, h *host.Host, list []config.Reservation, selected bool, log *slog.Logger) (bool, error) {
	changed, err := h.ReserveDue(list, selected)
	if err != nil || !changed && !h.Unmet() {
		return changed, err
	}
	if changed {
		if err := roomToChoose(h.Runtime()); err != nil {
			return false, err
		}
	}
	c := choice{list: list, changed: changed}
	if c.last, err = runstate.ReadPartitions(h.Runtime()); err != nil || c.last == nil {
		return changed, err
	}
	if kindless(c.last.Parts) && slices.ContainsFunc(list, func(r config.Reservation) bool { return !r.Sought.Any() }) {
		return changed, nil // the choice itself lists the kinds
	}
	look, enough := context.WithTimeout(ctx, answering)
	defer enough()
	devices, err := h.Node(nil).Devices(look)
	if err != nil {
		return changed, nil // the choice itself tells of that
	}
	c.wants = wants(list, c.last.Parts, devices, slog.New(slog.DiscardHandler))
	if c.now, err = (lease.Links{Dir: h.Path("dev/dcm")}).Read(); err != nil {
		return false, err
	}
	limit, cancel := context.WithTimeout(ctx, answering)
	defer cancel()
	return c.settle(limit, &leaseHost{host: h, log: log})
}

// chooseSpace is the free space, in bytes, that a choice needs in the runtime directory: the
// lists that it replaces, the state and the temporary files beside them, several times over.
const chooseSpace = 512 << 10

// roomToChoose returns an error if a choice could not be written down. Units would be
// restarted needlessly for it.
func roomToChoose(dir string) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	if free := fs.Bavail * uint64(fs.Bsize); free < chooseSpace {
		return fmt.Errorf("%s: no space left (found %d KiB, want %d KiB)", dir, free>>10, chooseSpace>>10)
	}
	return nil
}

// activeLeases is what leases have.
type activeLeases struct {
	leased  []string          // the nodes
	lessees []runstate.Holder // the processes in them
	changed <-chan struct{}   // one may have ended since
}

// leaseSource is who gives leases.
type leaseSource interface {
	tenancy(ctx context.Context) (activeLeases, error)
	sweep(ctx context.Context) // ends leases that nobody is in
}

// settle weighs, and waits for leases that nobody is in any more: there is nobody whose
// end could be waited for later.
func (c choice) settle(ctx context.Context, l leaseSource) (bool, error) {
	for {
		t, err := l.tenancy(ctx)
		if err != nil {
			return false, err
		}
		c.leased, c.lessees = t.leased, t.lessees
		is, err := c.evaluate()
		if err == nil || len(c.lessees) > 0 || len(c.leased) == 0 {
			return is, err
		}
		l.sweep(ctx)
		select {
		case <-t.changed:
		case <-ctx.Done():
			// Another try may find them ended, so that it is no unsatisfiableError.
			return false, fmt.Errorf("%v; leases that nobody is in have the others, and do not end: %w", err, ctx.Err())
		}
	}
}

// activeLeases hears of an end from before it looks.
func (p *leaseHost) tenancy(ctx context.Context) (t activeLeases, err error) {
	if len(p.host.Leased()) == 0 {
		return t, nil // mostly, and then nobody is asked
	}
	t.changed = p.Changed(ctx)
	t.leased, err = p.leases(ctx, true)
	t.lessees = apply.Holders(p.host.Lessees())
	return t, err
}

// leases are the nodes that leases have.
func (p *leaseHost) leases(ctx context.Context, any bool) ([]string, error) {
	if !any {
		return nil, nil
	}
	list, err := p.tenantsNow(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot tell what leases have: %w", err)
	}
	var nodes []string
	for _, t := range list {
		if leased(t.Unit) {
			nodes = append(nodes, t.Allowed...)
		}
	}
	return nodes, nil
}

// choice is what a choice for reservations goes by.
type choice struct {
	list    []config.Reservation
	wants   []lease.Reservation
	changed bool // the list is another one than was chosen for last
	last    *runstate.Partitions
	now     map[string][]string // the nodes that each has
	leased  []string            // the nodes that leases have
	lessees []runstate.Holder   // who they are
}

// unsatisfiableError is that partitions would be chosen in vain.
type unsatisfiableError struct {
	text    string
	lessees []runstate.Holder // whose end would help
}

func (e *unsatisfiableError) Error() string {
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

// Cure is what an administrator can do about it.
func (e *unsatisfiableError) Cure() string {
	if len(e.lessees) == 0 {
		return "reserve less, or select a profile with more partitions"
	}
	return "wait for the end of these leases, or end them with dcm release; dcm goes on by itself"
}

// Holders are those whose end it waits for.
func (e *unsatisfiableError) Holders() []runstate.Holder { return e.lessees }

// evaluate tells whether a choice would give somebody what he has not, and takes nothing
// from anybody who then would have none.
func (c choice) evaluate() (bool, error) {
	given, lack := lease.Reserve(c.last.Parts, c.wants, c.now, c.leased)
	free := given
	if lack != nil && len(c.leased) > 0 {
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
	e := &unsatisfiableError{text: fmt.Sprintf("%s cannot be met: %v", strings.Join(stuck, ", "), lack)}
	if waits {
		e.lessees = c.lessees
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
