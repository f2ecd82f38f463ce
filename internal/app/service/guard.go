package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"dcm/internal/engine/host"
	"dcm/internal/leases/guard"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// guardTable is the table of the guard in the kernel.
type guardTable interface {
	// Due returns why dcm-guard.service has to run, "" if the table is as wanted.
	Due(ctx context.Context) (string, error)
	// Needed reports whether something is exclusive, or guarded.
	Needed() bool
}

// guardUnit is dcm-guard.service.
type guardUnit interface {
	// RunOnce starts it and waits for its end.
	RunOnce(ctx context.Context) error
	// ClearFailed clears the failure of a run.
	ClearFailed(ctx context.Context) error
	// Failed waits until a run has failed.
	Failed(ctx context.Context) error
}

// guardian keeps the guard's table up to date. After a change, for example the end of a lease, it
// compares the table that dcm-guard has read back with the exclusive holders, and starts
// dcm-guard.service if they differ.
type guardian struct {
	table   guardTable
	unit    guardUnit
	log     *slog.Logger
	changed func() // called when the table becomes correct or incorrect
	nudges  chan struct{}

	logged string // the error that was logged last
}

func newGuardian(table guardTable, unit guardUnit, log *slog.Logger, changed func()) *guardian {
	return &guardian{table: table, unit: unit, log: log, changed: changed, nudges: make(chan struct{}, 1)}
}

// nudge requests a comparison of the table.
func (g *guardian) nudge() {
	select {
	case g.nudges <- struct{}{}:
	default: // one is pending
	}
}

// The delays between attempts to correct the table. Each is twice as long as the one before.
const (
	firstGuardDelay = time.Second
	lastGuardDelay  = time.Minute
)

// run returns when ctx ends.
func (g *guardian) run(ctx context.Context) {
	delay := time.Duration(0)
	for {
		err := g.mend(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			delay = 0
		} else {
			delay = min(max(2*delay, firstGuardDelay), lastGuardDelay)
		}
		g.logOnce(err)
		g.wait(ctx, delay)
	}
}

// logOnce logs an error once for each cause.
func (g *guardian) logOnce(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text == g.logged {
		return
	}
	if g.logged = text; err != nil {
		g.log.Warn("the guard's table is wrong, so partitions may be open to others or closed to their holders: "+text, "unit", unitname.Guard)
	} else {
		g.log.Info("the guard's table is correct again", "unit", unitname.Guard)
	}
	g.changed()
}

// guardCheckTimeout limits one comparison of the table, with the run that it may start.
const guardCheckTimeout = 30 * time.Second

// mend starts dcm-guard.service if its table is not as wanted, after the end of a run in progress.
// It clears an earlier failure of the unit, which would keep the host "degraded" needlessly.
func (g *guardian) mend(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, guardCheckTimeout)
	defer cancel()
	why, err := g.table.Due(ctx)
	if err != nil {
		return err
	}
	if why != "" {
		g.log.Info("starting "+unitname.Guard+": "+why, "unit", unitname.Guard)
		started := g.unit.RunOnce(ctx)
		// The table decides, not how the start ended.
		switch why, err := g.table.Due(ctx); {
		case err != nil:
			return err
		case why != "" && started != nil:
			return fmt.Errorf("%s: %w", why, started)
		case why != "":
			return errors.New(why)
		}
		g.changed()
	}
	if !g.table.Needed() {
		return nil
	}
	return g.unit.ClearFailed(ctx)
}

// wait returns when the table is to be compared again: at a nudge and, if a holder is exclusive,
// at a failure of dcm-guard.service. delay is 0 if the table is as wanted.
func (g *guardian) wait(ctx context.Context, delay time.Duration) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var again <-chan time.Time
	var failed chan struct{}
	switch {
	case delay > 0:
		again = time.After(delay)
	case g.table.Needed():
		failed = make(chan struct{})
		go func() {
			defer close(failed)
			g.watch(ctx)
		}()
	}
	select {
	case <-ctx.Done():
	case <-g.nudges:
	case <-again:
	case <-failed:
	}
}

// watch returns when dcm-guard.service has failed. If systemd cannot be watched, it returns after
// lastGuardDelay.
func (g *guardian) watch(ctx context.Context) {
	if err := g.unit.Failed(ctx); err != nil {
		select {
		case <-ctx.Done():
		case <-time.After(lastGuardDelay):
		}
	}
}

// hostGuard is the guard of this host. It is a [guardTable] and a [guardUnit].
type hostGuard struct {
	host      *host.Host
	observers func() []string
}

func (h hostGuard) Due(ctx context.Context) (string, error) {
	return guard.Due(ctx, h.host, h.observers())
}

func (h hostGuard) Needed() bool { return guard.Needed(h.host) }

func (h hostGuard) RunOnce(ctx context.Context) error {
	conn, err := h.host.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Jobs.RunOnce(ctx, unitname.Guard)
}

func (h hostGuard) ClearFailed(ctx context.Context) error {
	conn, err := h.host.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	units, err := conn.Units.List(ctx, []string{unitname.Guard}, systemd.States)
	if err != nil || units[0].Active != "failed" {
		return err
	}
	return conn.Jobs.ResetFailed(ctx, unitname.Guard)
}

func (h hostGuard) Failed(ctx context.Context) error {
	conn, err := h.host.DialToWait(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Units.Await(ctx, []string{unitname.Guard}, func(units []systemd.Unit) bool { return units[0].Active == "failed" })
}
