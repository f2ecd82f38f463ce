package systemd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	sd "github.com/coreos/go-systemd/v22/dbus"

	"dcm/internal/sorting"
)

// parallel limits the number of concurrent reads of units.
const parallel = 16

// each calls f for 0 to n-1, up to [parallel] calls concurrently.
func each(n int, f func(i int) error) error {
	errs, slots := make([]error, n), make(chan struct{}, parallel)
	var wg sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			errs[i] = f(i)
			<-slots
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// listed is an entry of PID 1's list of units.
type listed struct {
	unit        Unit
	primary     string
	description string
}

// up reports whether the unit is loaded and active, or has a job.
func (l listed) up() bool { return l.unit.Load == "loaded" && (l.unit.Job || !l.unit.down()) }

func listing(name string, s sd.UnitStatus) listed {
	return listed{primary: s.Name, description: s.Description, unit: Unit{
		Name: name, ID: s.Name, Load: s.LoadState, Active: s.ActiveState, Sub: s.SubState, Job: s.JobId != 0,
	}}
}

// list reads all units in one call, and one for each template.
func (t *transport) list(ctx context.Context, names []string) ([]listed, error) {
	var plain []string
	for _, name := range names {
		if !isTemplate(name) {
			plain = append(plain, name)
		}
	}
	var byName []sd.UnitStatus
	if len(plain) > 0 {
		if err := t.call(ctx, &byName, managerPath, managerInterface+".ListUnitsByNames", plain); err != nil {
			return nil, fmt.Errorf("cannot read the units: %w", err)
		}
	}
	// PID 1 omits names that are not valid.
	if len(byName) != len(plain) {
		return nil, fmt.Errorf("cannot read the units: systemd knows %d of %q", len(byName), plain)
	}
	var out []listed
	for _, name := range names {
		if !isTemplate(name) {
			out = append(out, listing(name, byName[0]))
			byName = byName[1:]
			continue
		}
		// A backslash escapes in a pattern of fnmatch(3).
		instances, err := t.matching(ctx, nil, strings.Replace(strings.ReplaceAll(name, `\`, `\\`), "@.", "@*.", 1))
		if err != nil {
			return nil, err
		}
		out = append(out, instances...)
	}
	return out, nil
}

// matching returns the loaded units in one of the states, or in any if there are none, whose
// names match a pattern of fnmatch(3).
func (t *transport) matching(ctx context.Context, states []string, patterns ...string) ([]listed, error) {
	var found []sd.UnitStatus
	if err := t.call(ctx, &found, managerPath, managerInterface+".ListUnitsByPatterns", append([]string{}, states...), patterns); err != nil {
		return nil, fmt.Errorf("cannot read the units %s: %w", strings.Join(patterns, " "), err)
	}
	var out []listed
	for _, status := range found {
		if status.LoadState != "not-found" { // only another unit refers to it
			out = append(out, listing(status.Name, status))
		}
	}
	sorting.By(out, func(a, b listed) int { return cmp.Compare(a.primary, b.primary) })
	return out, nil
}

func isTemplate(name string) bool { return strings.Contains(name, "@.") }

// unloadedSince returns nil if err is the result of the unload of the unit, as of a scope that has
// ended, and otherwise err.
func (t *transport) unloadedSince(ctx context.Context, unit string, err error) error {
	if now, again := t.list(ctx, []string{unit}); again == nil && now[0].unit.Load != "loaded" {
		return nil
	}
	return err
}
