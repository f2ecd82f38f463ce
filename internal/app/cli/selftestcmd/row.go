package selftestcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"dcm/internal/app/cli/client"
	"dcm/internal/app/selftest"
	"dcm/internal/engine/runstate"
	"dcm/internal/exitcode"
	"dcm/internal/gpu/partition"
	"dcm/internal/text"
)

// row shows what was found in a mode. The checks are those at this mode.
func (e *test) row(m selftest.ModeResult, at string) {
	for _, c := range e.result.Checks {
		if c.At == at && (at != "" || c.Source != "") {
			m.Checks = append(m.Checks, c)
		}
	}
	wrong := m.Verdict() == selftest.Wrong
	if m.SkipReason == "" && (at != "" && at != restored || wrong) {
		e.modes++
	}
	if wrong {
		e.wrong++
	}
	for i, t := range e.result.Runs {
		if t.To == at && (m.Timing == nil || t.Took > m.Timing.Took) {
			m.Timing = &e.result.Runs[i]
		}
	}
	e.emit(event{Mode: &m})
}

// begin shows the head of the table.
func (e *test) begin(gpus []partition.GPU, targets []selftest.Target) {
	p := head{Changed: e.result.Changed}
	for _, t := range targets {
		p.Modes = append(p.Modes, t.Mode)
	}
	for _, g := range gpus {
		if !slices.Contains(p.Vendors, g.Vendor) {
			p.Vendors = append(p.Vendors, g.Vendor)
		}
	}
	e.emit(event{Begin: &p})
}

// conclude packs the result and shows the conclusion. It returns an error if a check failed.
func (e *test) conclude(ctx context.Context, file string) error {
	e.result.Ended = time.Now()
	claims, err := selftest.Claims()
	if err != nil {
		return err
	}
	e.result.Table = selftest.Table(claims, e.facts)
	if err := pack(ctx, e, file); err != nil {
		return err
	}
	o := selftest.Outcome{Changed: e.result.Changed, Modes: e.modes, Wrong: e.wrong, Counts: selftest.Summary(e.result.Checks), Facts: len(e.result.Table)}
	for _, c := range e.result.Checks {
		if c.At == "" && c.Source == "" || c.Verdict == selftest.NotSeen || c.What == selftest.WhileOpen {
			o.Checks = append(o.Checks, c)
		}
	}
	o.Differ = slices.DeleteFunc(slices.Clone(e.result.Table), func(r selftest.Row) bool { return !r.Differs() })
	if file != "-" {
		o.Archive = file
	}
	e.emit(event{Outcome: &o})
	if selftest.Failed(e.result.Checks) {
		return exitcode.With(exitcode.Differs, nil)
	}
	return nil
}

// outcome is the check of a change that has this error. The holders in a refusal have names, which are
// for the terminal only.
func (e *test) outcome(ctx context.Context, at, what, right string, err error) selftest.Check {
	if err == nil {
		return selftest.FromError(at, what, right, nil)
	}
	// The hint is about the selection, which the test makes and withdraws by itself.
	reason, _, _ := strings.Cut(err.Error(), "\nhint:")
	c := selftest.FromError(at, what, right, errors.New(reason))
	state, unread := client.State(ctx, e.host)
	if unread != nil || state == nil {
		return c
	}
	e.names.addFrom(state)
	if n := len(state.Holders); n > 0 {
		c.Named = c.Text
		c.Text = fmt.Sprintf("the GPUs are in use: %s with %s", text.Plural(n, "process", "processes"), strings.Join(devices(state.Holders), ", "))
	}
	return c
}

// devices returns the device nodes that holders have open.
func devices(holders []runstate.Holder) []string {
	var out []string
	for _, h := range holders {
		for _, d := range h.Devices {
			if !slices.Contains(out, d) {
				out = append(out, d)
			}
		}
	}
	return out
}
