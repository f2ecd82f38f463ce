package systemd

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/godbus/dbus/v5"

	"dcm/internal/sanitize"
)

// Units reads the states of units and waits for changes.
type Units struct{ t *transport }

// List reads units, in the order of the names. A template, "x@.service", yields
// its loaded instances, possibly none; a unit without a file has Load "not-found".
func (u Units) List(ctx context.Context, names []string, fields Fields) ([]Unit, error) {
	list, err := u.t.list(ctx, names)
	if err != nil {
		return nil, err
	}
	units := make([]Unit, len(list))
	for i, l := range list {
		units[i] = l.unit
	}
	if fields == States {
		return units, nil
	}
	err = each(len(units), func(i int) error { return u.read(ctx, &units[i], fields) })
	return units, err
}

// Loaded returns the states of those units that PID 1 has loaded. [Units.List] loads the others for a moment,
// and PID 1 sends signals for that, which would wake a caller that waits for changes.
func (u Units) Loaded(ctx context.Context, names []string) ([]Unit, error) {
	loaded := make([]bool, len(names))
	err := each(len(names), func(i int) error {
		var path dbus.ObjectPath
		err := u.t.call(ctx, &path, managerPath, managerInterface+".GetUnit", names[i])
		if loaded[i] = err == nil; isRemote(err, "org.freedesktop.systemd1.NoSuchUnit") {
			return nil
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var some []string
	for i, name := range names {
		if loaded[i] {
			some = append(some, name)
		}
	}
	return u.List(ctx, some, States)
}

// Failed returns the failed ones among units, in the order of their names. A template, "x@.service", stands for
// its loaded instances.
func (u Units) Failed(ctx context.Context, names []string) ([]Unit, error) {
	patterns := make([]string, len(names))
	for i, name := range names {
		if patterns[i] = name; isTemplate(name) {
			patterns[i] = strings.Replace(name, "@.", "@*.", 1)
		}
	}
	list, err := u.t.matching(ctx, []string{"failed"}, patterns...)
	if err != nil {
		return nil, err
	}
	units := make([]Unit, len(list))
	err = each(len(list), func(i int) error {
		units[i] = list[i].unit
		return u.read(ctx, &units[i], Inactive)
	})
	return units, err
}

// Instances returns the states of the loaded instances of a template, in the order of their names.
func (u Units) Instances(ctx context.Context, template string) ([]Unit, error) {
	list, err := u.t.matching(ctx, nil, strings.Replace(template, "@.", "@*.", 1))
	units := make([]Unit, len(list))
	for i := range list {
		units[i] = list[i].unit
	}
	return units, err
}

// Stopping returns the units that are being stopped, or are active and have a job, so that a unit that requires
// them cannot start now. The patterns are those of fnmatch(3).
func (u Units) Stopping(ctx context.Context, patterns ...string) ([]string, error) {
	list, err := u.t.matching(ctx, []string{"active", "deactivating"}, patterns...)
	var out []string
	for _, l := range list {
		if l.unit.Active == "deactivating" || l.unit.Job {
			out = append(out, l.primary)
		}
	}
	return out, err
}

// Unknown returns the patterns that match neither a loaded unit nor a unit file. In a pattern * is any text, and a
// template, "x@.service", stands for its instances. A name without * is unknown if it has no unit file.
func (u Units) Unknown(ctx context.Context, patterns []string) ([]string, error) {
	unknown := make([]bool, len(patterns))
	err := each(len(patterns), func(i int) error {
		name := patterns[i]
		if !strings.Contains(name, "*") && !isTemplate(name) {
			list, err := u.t.list(ctx, []string{name})
			unknown[i] = err == nil && list[0].unit.Load == "not-found"
			return err
		}
		pattern := strings.Replace(strings.ReplaceAll(name, `\`, `\\`), "@.", "@*.", 1)
		loaded, err := u.t.matching(ctx, nil, pattern)
		if err != nil || len(loaded) > 0 {
			return err
		}
		var files []struct{ Path, State string }
		err = u.t.call(ctx, &files, managerPath, managerInterface+".ListUnitFilesByPatterns", []string{}, []string{pattern})
		unknown[i] = err == nil && len(files) == 0
		return err
	})
	var out []string
	for i, name := range patterns {
		if unknown[i] {
			out = append(out, name)
		}
	}
	return out, err
}

// read adds fields to what the list says of a unit.
func (u Units) read(ctx context.Context, unit *Unit, fields Fields) (err error) {
	service := strings.HasSuffix(unit.Name, ".service")
	switch {
	case unit.Active == "active" && (fields == Inactive || fields == Restarts):
		if service {
			unit.Result = "success"
			if fields == Restarts {
				err = u.t.property(ctx, unit.Name, serviceInterface, "NRestarts", &unit.Restarts)
			}
		}
		return err
	case unit.Load != "loaded":
		return nil
	}
	unit.Invocation, err = u.t.invocation(ctx, unit.Name)
	if !service || fields == Run {
		return err
	}
	err = errors.Join(err, u.t.properties(ctx, unit.Name, wanted{serviceInterface, "Result", &unit.Result},
		wanted{serviceInterface, "NRestarts", &unit.Restarts}, wanted{serviceInterface, "MainPID", &unit.MainPID}))
	if err == nil && unit.Active != "active" {
		unit.Oneshot, err = u.oneshot(ctx, unit.Name)
	}
	if err == nil && unit.Result != "success" {
		unit.Failed, err = u.failedCommand(ctx, unit.Name)
	}
	return err
}

// oneshot reports whether a service becomes inactive after success.
func (u Units) oneshot(ctx context.Context, name string) (bool, error) {
	var kind string
	var remains bool
	if err := u.t.property(ctx, name, serviceInterface, "Type", &kind); err != nil || kind != "oneshot" {
		return false, err
	}
	err := u.t.property(ctx, name, serviceInterface, "RemainAfterExit", &remains)
	return !remains, err
}

// execution is a(sasbttttuii) of org.freedesktop.systemd1(5).
type execution struct {
	Path                           string
	Arguments                      []string
	Ignored                        bool
	Began, BeganAt, Ended, EndedAt uint64
	PID                            uint32
	Code, Status                   int32
}

const exited = 1 // CLD_EXITED

// forked reports whether the commands of a service of Type=forking have exited with success,
// so that only background processes are left.
func (u Units) forked(ctx context.Context, unit string) (bool, error) {
	var kind string
	if err := u.t.property(ctx, unit, serviceInterface, "Type", &kind); err != nil || kind != "forking" {
		return false, err
	}
	var all []execution
	if err := u.t.property(ctx, unit, serviceInterface, "ExecStart", &all); err != nil {
		return false, err
	}
	return !slices.ContainsFunc(all, func(e execution) bool { return e.Code != exited || e.Status != 0 && !e.Ignored }), nil
}

// failedCommand returns the first command that failed, in the order of execution. systemd drops the
// results when the service is started again.
func (u Units) failedCommand(ctx context.Context, unit string) (Command, error) {
	for _, directive := range append(before(), "ExecStart", "ExecStartPost", "ExecStop", "ExecStopPost") {
		var all []execution
		if err := u.t.property(ctx, unit, serviceInterface, directive, &all); err != nil {
			return Command{}, err
		}
		for _, one := range all {
			over := one.PID != 0 && one.Ended != 0
			if bad := one.Code != exited || one.Status != 0; over && bad && !one.Ignored {
				return Command{directive, sanitize.Text(one.Path), one.Code != exited, int(one.Status)}, nil
			}
		}
	}
	return Command{}, nil
}

// SkippedStopPost reports whether a service has ended, and systemd has run none of its ExecStopPost= commands.
func (u Units) SkippedStopPost(ctx context.Context, unit string) (bool, error) {
	var state string
	if err := u.t.property(ctx, unit, unitInterface, "ActiveState", &state); err != nil || state != "inactive" && state != "failed" {
		return false, err
	}
	var all []execution
	err := u.t.property(ctx, unit, serviceInterface, "ExecStopPost", &all)
	return err == nil && !slices.ContainsFunc(all, func(e execution) bool { return e.PID != 0 && e.Ended != 0 && e.Code == exited }), err
}

// Enabled returns a unit's UnitFileState: "enabled", "disabled", "masked", "static", …; "" if it
// has no file.
func (u Units) Enabled(ctx context.Context, name string) (state string, err error) {
	err = u.t.property(ctx, name, unitInterface, "UnitFileState", &state)
	return state, err
}

// Frozen reports whether a unit or its slice is frozen or being frozen (systemctl freeze).
// systemd does not stop a frozen unit.
func (u Units) Frozen(ctx context.Context, name string) (bool, error) {
	var state string
	err := u.t.property(ctx, name, unitInterface, "FreezerState", &state)
	return err == nil && state != "running" && state != "thawing", err
}
