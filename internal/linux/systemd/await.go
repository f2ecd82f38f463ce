package systemd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Await returns when the condition is true for the units, or with the error of ctx. It reads
// [States] of the units, and receives the signals of these units only.
func (u Units) Await(ctx context.Context, names []string, condition func([]Unit) bool) error {
	var rules []rule
	for _, name := range names {
		rules = append(rules, unitRules(name)...)
	}
	sub, err := u.t.subscribe(ctx, rules)
	if err != nil {
		return err
	}
	defer u.t.signals.remove(sub)
	return sub.await(ctx, func() (bool, error) {
		units, err := u.List(ctx, names, States)
		return err == nil && condition(units), err
	})
}

// Changed returns when the ActiveState of a unit differs from its entry in had (by unit name), or
// with the error of ctx.
func (u Units) Changed(ctx context.Context, had map[string]string) error {
	return u.Await(ctx, slices.Sorted(maps.Keys(had)), func(units []Unit) bool {
		return slices.ContainsFunc(units, func(u Unit) bool { return u.Active != had[u.Name] })
	})
}

// finalReadTimeout is how long Settle may take to read the units after ctx has ended.
const finalReadTimeout = 2 * time.Second

// Settle waits until settled is true for each unit, and returns the units. It is [Unit.Settled], or true
// for some units that wait for their automatic restart too. If ctx ends first, Settle returns the states at
// that time, with the error of ctx.
func (u Units) Settle(ctx context.Context, names []string, settled func(Unit) bool) ([]Unit, error) {
	sub, err := u.t.subscribe(ctx, anyUnitRules())
	if err == nil {
		defer u.t.signals.remove(sub)
		sub.onlySettled()
		err = u.settle(ctx, names, settled, sub)
	}
	for err == nil {
		units, failed := u.List(ctx, names, All)
		if failed != nil || !slices.ContainsFunc(units, func(u Unit) bool { return !settled(u) }) {
			return units, failed
		}
		err = u.settle(ctx, names, settled, sub) // a unit has started to change since
	}
	final, cancel := context.WithTimeout(context.WithoutCancel(ctx), finalReadTimeout)
	defer cancel()
	units, _ := u.List(final, names, All)
	return units, err
}

// settle reads again only the units that have not settled, since it does so after each
// change. When they have settled, it reads all: others may have started to change.
func (u Units) settle(ctx context.Context, names []string, settled func(Unit) bool, sub *subscription) error {
	var unsettled []string
	err := sub.await(ctx, func() (done bool, err error) {
		for {
			if len(unsettled) == 0 {
				if unsettled, err = u.unsettled(ctx, names, settled); err != nil || len(unsettled) == 0 {
					return true, err
				}
			}
			sub.follow(unsettled...)
			if unsettled, err = u.unsettled(ctx, unsettled, settled); err != nil || len(unsettled) > 0 {
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
func (u Units) unsettled(ctx context.Context, names []string, settled func(Unit) bool) ([]string, error) {
	units, err := u.List(ctx, names, States)
	var out []string
	for _, unit := range units {
		if !settled(unit) {
			out = append(out, unit.ID)
		}
	}
	return out, err
}
