package systemd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/godbus/dbus/v5"
)

// await calls done until it returns true or an error, or until ctx ends: first immediately,
// then after each signal of the subscription. A signal is only ever a reason to read the
// state again.
func (s *subscription) await(ctx context.Context, done func() (bool, error)) error {
	for {
		if over, err := done(); over || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.wake:
		}
	}
}

// Await returns when the condition is true of the units, or with the error of ctx. It reads
// [States] of the units, and receives the signals of these units only.
func (c *Conn) Await(ctx context.Context, names []string, condition func([]Unit) bool) error {
	var rules []rule
	for _, name := range names {
		rules = append(rules, unitRules(name)...)
	}
	sub, err := c.subscribe(ctx, rules)
	if err != nil {
		return err
	}
	defer c.signals.remove(sub)
	return sub.await(ctx, func() (bool, error) {
		units, err := c.List(ctx, names, States)
		return err == nil && condition(units), err
	})
}

// Changed returns when the ActiveState of a unit differs from the one in had, which is by the
// unit's name, or with the error of ctx.
func (c *Conn) Changed(ctx context.Context, had map[string]string) error {
	return c.Await(ctx, slices.Sorted(maps.Keys(had)), func(units []Unit) bool {
		return slices.ContainsFunc(units, func(u Unit) bool { return u.Active != had[u.Name] })
	})
}

// awaitJob calls queue, which has PID 1 queue a job of the unit, and waits for its end. If the
// connection is lost during queue, done decides by the state of the unit.
func (c *Conn) awaitJob(ctx context.Context, unit string, queue func(job *dbus.ObjectPath) error, done func(result string, certain bool) (bool, error)) error {
	sub, err := c.listen(ctx, unitRules(unit))
	if err != nil {
		return err
	}
	defer c.signals.remove(sub)
	sub.follow(unit)
	sub.onlySettled()
	var job dbus.ObjectPath
	if err := queue(&job); err != nil && !lost(err) {
		return err
	}
	return sub.awaitJob(ctx, job, done)
}

// awaitJob calls done until it returns true or an error, with the result of the job, "" if it
// is not known, and whether the signal of it is certain to come.
func (s *subscription) awaitJob(ctx context.Context, job dbus.ObjectPath, done func(result string, certain bool) (bool, error)) error {
	return s.await(ctx, func() (bool, error) {
		// The result is taken before the state is read: a state that is older than the end
		// of the job does not show its effect.
		result, certain := s.result(job)
		if result == "" && certain {
			return false, nil // PID 1 is not called while it works on the job
		}
		return done(result, certain)
	})
}

// finalReadTimeout is how long Settle may take to read the units after ctx has ended.
const finalReadTimeout = 2 * time.Second

// Settle waits until all units are settled and returns them. If ctx ends first, it returns
// the units as they are then, with the error of ctx.
func (c *Conn) Settle(ctx context.Context, names []string) ([]Unit, error) {
	sub, err := c.subscribe(ctx, anyUnitRules())
	if err == nil {
		defer c.signals.remove(sub)
		sub.onlySettled()
		err = c.settle(ctx, names, sub)
	}
	for err == nil {
		units, failed := c.Units(ctx, names)
		if failed != nil || !slices.ContainsFunc(units, Unit.unsettled) {
			return units, failed
		}
		err = c.settle(ctx, names, sub) // a unit has started to change since
	}
	final, cancel := context.WithTimeout(context.WithoutCancel(ctx), finalReadTimeout)
	defer cancel()
	units, _ := c.Units(final, names)
	return units, err
}

// settle reads again only the units that have not settled, since it does so after each
// change. When they have settled, it reads all: others may have started to change.
func (c *Conn) settle(ctx context.Context, names []string, sub *subscription) error {
	var unsettled []string
	err := sub.await(ctx, func() (done bool, err error) {
		for {
			if len(unsettled) == 0 {
				if unsettled, err = c.unsettled(ctx, names); err != nil || len(unsettled) == 0 {
					return true, err
				}
			}
			sub.follow(unsettled...)
			if unsettled, err = c.unsettled(ctx, unsettled); err != nil || len(unsettled) > 0 {
				return false, err
			}
		}
	})
	if err != nil && len(unsettled) > 0 {
		return fmt.Errorf("%d of the units have not settled, first %s: %w", len(unsettled), unsettled[0], err)
	}
	return err
}

// unsettled returns the IDs of those of the units that have not settled.
func (c *Conn) unsettled(ctx context.Context, names []string) ([]string, error) {
	units, err := c.List(ctx, names, States)
	var out []string
	for _, u := range units {
		if u.unsettled() {
			out = append(out, u.ID)
		}
	}
	return out, err
}
