package systemd

import (
	"context"
	"slices"
	"strings"
	"time"
)

// End describes the last stop of a unit. Times are microseconds of CLOCK_MONOTONIC, 0 for
// never, as in org.freedesktop.systemd1(5).
type End struct {
	Began   uint64 // the last start (InactiveExit)
	Tried   uint64 // the last attempt to start (when its conditions were checked)
	Left    uint64 // when it left the state active (ActiveExit)
	Gone    uint64 // when it became inactive (InactiveEnter)
	Exited  uint64 // when the main process of a service exited; 0 if there was none
	Forked  bool   // the commands of a forking service exited with success
	Remains bool   // the service stays active after its process exits (RemainAfterExit=)
	Skipped bool   // the last attempt to start failed a condition or an assertion

	Needs []string // units without which it does not start (Requires=, Requisite=, BindsTo=)
	Bound []string // units without which it does not stay (BindsTo=)
	Parts []string // units that are restarted with it (the reverse of PartOf=)
}

// End reads how a unit stopped.
func (u Units) End(ctx context.Context, name string) (End, error) {
	var e End
	var requires, requisite []string
	var met, asserted bool
	var assertedAt uint64
	err := u.t.properties(ctx, name,
		wanted{unitInterface, startedAt, &e.Began},
		wanted{unitInterface, "ActiveExitTimestampMonotonic", &e.Left},
		wanted{unitInterface, "InactiveEnterTimestampMonotonic", &e.Gone},
		wanted{unitInterface, "ConditionResult", &met},
		wanted{unitInterface, "ConditionTimestampMonotonic", &e.Tried},
		wanted{unitInterface, "AssertResult", &asserted},
		wanted{unitInterface, "AssertTimestampMonotonic", &assertedAt},
		wanted{unitInterface, "Requires", &requires},
		wanted{unitInterface, "Requisite", &requisite},
		wanted{unitInterface, "BindsTo", &e.Bound},
		wanted{unitInterface, "ConsistsOf", &e.Parts})
	if err == nil && strings.HasSuffix(name, ".service") {
		err = u.t.properties(ctx, name, wanted{serviceInterface, "ExecMainExitTimestampMonotonic", &e.Exited},
			wanted{serviceInterface, "RemainAfterExit", &e.Remains})
		if err == nil {
			e.Forked, err = u.forked(ctx, name)
		}
	}
	// If the conditions are newer than the end, they are of a later attempt.
	e.Skipped = !met && e.Tried > e.Left || !asserted && assertedAt > e.Left
	e.Needs = slices.Concat(requires, requisite, e.Bound)
	return e, err
}

// ExitedOnItsOwn reports whether an inactive or failed unit ended without a request to stop it. If
// the main process of a service exited before the unit left "active", there was no request; if it
// exited afterwards, it was stopped.
func (e End) ExitedOnItsOwn(u Unit) bool {
	never := e.Left < e.Began // the unit did not become active
	switch {
	case u.Active == "failed":
		ofItself := []string{"watchdog", "start-limit-hit", "resources", "protocol", "oom-kill"}
		return never || e.Exited <= e.Left || slices.Contains(ofItself, u.Result)
	case !strings.HasSuffix(u.Name, ".service"):
		return false
	case never:
		// The background processes of a forking service have exited.
		return u.Result != "success" || e.Forked
	case e.Remains:
		return false
	}
	if e.Exited == 0 || e.Exited < e.Began {
		// A forking service may have no main process. If its last process exited, it becomes
		// inactive immediately; if it was stopped, it is "deactivating" first.
		return e.Left != 0 && e.Left == e.Gone
	}
	return e.Exited <= e.Left
}

// StartedAndFailed returns the failed services that were started in a period, in the order of their names.
func (u Units) StartedAndFailed(ctx context.Context, from, to time.Time) ([]string, error) {
	list, err := u.t.matching(ctx, []string{"failed"}, "*.service")
	if err != nil {
		return nil, err
	}
	uptime, err := sinceBoot()
	if err != nil {
		return nil, err
	}
	boot := time.Now().Add(-uptime)
	starts := make([]uint64, len(list))
	err = each(len(list), func(i int) error {
		return u.t.property(ctx, list[i].unit.ID, unitInterface, startedAt, &starts[i])
	})
	var out []string
	for i, l := range list {
		start := boot.Add(time.Duration(starts[i]) * time.Microsecond)
		if starts[i] > 0 && !start.Before(from) && !start.After(to) {
			out = append(out, l.unit.ID)
		}
	}
	return out, err
}
