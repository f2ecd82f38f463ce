package systemd

import (
	"context"
	"errors"
	"slices"
	"strings"
)

// End is what PID 1 knows of how a unit came to be down. Times are microseconds of
// the monotonic clock, 0 for never, as in org.freedesktop.systemd1(5).
type End struct {
	Began   uint64 // the last start that was made (InactiveExit)
	Tried   uint64 // the last start that was asked for (when its conditions were judged)
	Left    uint64 // when it ceased to be active (ActiveExit)
	Gone    uint64 // when it was down (InactiveEnter)
	Exited  uint64 // when the main process of a service ended; 0 where none was known
	Forked  bool   // a service has left all to processes in the background, with success
	Remains bool   // a service that stays active behind its process (RemainAfterExit=)
	Skipped bool   // the last start was not made: a condition was not met

	Needs []string // units without which it does not start (Requires=, Requisite=, BindsTo=)
	Bound []string // units without which it does not stay (BindsTo=)
	Parts []string // units that are restarted with it (the reverse of PartOf=)
}

// End reads how a unit came to be down.
func (c *Conn) End(ctx context.Context, name string) (End, error) {
	var e End
	var requires, requisite []string
	var met, asserted bool
	var judged uint64
	var forked error
	err := errors.Join(
		c.property(ctx, name, unitInterface, "InactiveExitTimestampMonotonic", &e.Began),
		c.property(ctx, name, unitInterface, "ActiveExitTimestampMonotonic", &e.Left),
		c.property(ctx, name, unitInterface, "InactiveEnterTimestampMonotonic", &e.Gone),
		c.property(ctx, name, unitInterface, "ConditionResult", &met),
		c.property(ctx, name, unitInterface, "ConditionTimestampMonotonic", &e.Tried),
		c.property(ctx, name, unitInterface, "AssertResult", &asserted),
		c.property(ctx, name, unitInterface, "AssertTimestampMonotonic", &judged),
		c.property(ctx, name, unitInterface, "Requires", &requires),
		c.property(ctx, name, unitInterface, "Requisite", &requisite),
		c.property(ctx, name, unitInterface, "BindsTo", &e.Bound),
		c.property(ctx, name, unitInterface, "ConsistsOf", &e.Parts))
	if strings.HasSuffix(name, ".service") {
		e.Forked, forked = c.forked(ctx, name)
		err = errors.Join(err, forked,
			c.property(ctx, name, serviceInterface, "ExecMainExitTimestampMonotonic", &e.Exited),
			c.property(ctx, name, serviceInterface, "RemainAfterExit", &e.Remains))
	}
	// The conditions of a start that was made are older than its end.
	e.Skipped = !met && e.Tried > e.Left || !asserted && judged > e.Left
	e.Needs = slices.Concat(requires, requisite, e.Bound)
	return e, err
}

// ExitedOnItsOwn reports whether a unit that is down ended without being asked to. Of a
// service whose process had ended before the unit ceased to be active nobody had
// asked for it; of one whose process ended after, somebody had.
func (e End) ExitedOnItsOwn(u Unit) bool {
	never := e.Left < e.Began // this start did not get so far as to be active
	switch {
	case u.Active == "failed":
		ofItself := []string{"watchdog", "start-limit-hit", "resources", "protocol", "oom-kill"}
		return never || e.Exited <= e.Left || slices.Contains(ofItself, u.Result)
	case !strings.HasSuffix(u.Name, ".service"):
		return false
	case never:
		// What had gone to the background is gone: it was not stopped before that.
		return u.Result != "success" || e.Forked
	case e.Remains:
		return false
	}
	if e.Exited == 0 || e.Exited < e.Began {
		// One that forks may have no main process that PID 1 knows. If the last of them
		// has ended, it is down at once; if they had to be ended, it was on its way there.
		return e.Left != 0 && e.Left == e.Gone
	}
	return e.Exited <= e.Left
}
