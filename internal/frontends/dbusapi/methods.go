package dbusapi

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"dcm/internal/frontends/admission"
)

// queryTimeout limits a call that changes nothing.
const queryTimeout = 30 * time.Second

// handler carries out the calls of the daemon's methods: it identifies the caller, applies limits and
// permissions, and calls [Control].
type handler struct {
	control Control
	log     *slog.Logger
	caller  func(context.Context, call) (credentials, error)

	limiter  *admission.Limiter
	planning *fairQueue
	accounts sharedQueries
	usages   sharedQueries
	plans    sharedQueries
}

// methods returns the methods of the daemon's interface.
func (h *handler) methods() []method {
	return []method{
		{name: "Apply", out: []arg{{"state", "s"}}, kind: kindOf(admission.Change), run: h.apply},
		{name: "Use", in: []arg{{"profile", "s"}}, out: []arg{{"state", "s"}}, kind: kindOf(admission.Change), run: h.use(false)},
		{name: "UseUntilReboot", in: []arg{{"profile", "s"}}, out: []arg{{"state", "s"}}, kind: kindOf(admission.Change), run: h.use(true)},
		{name: "UseUntilConfirmed", in: []arg{{"profile", "s"}, {"time", "t"}, {"until_reboot", "b"}}, out: []arg{{"state", "s"}}, kind: kindOf(admission.Change), run: h.useUntilConfirmed},
		{name: "Confirm", in: []arg{{"profile", "s"}}, kind: kindOf(admission.Change), run: h.confirm},
		{name: "Reload", kind: kindOf(admission.Change), run: h.reload},
		{name: "Plan", in: []arg{{"profile", "s"}}, out: []arg{{"profile", "s"}, {"steps", "a(sasss)"}, {"clients", "as"}}, kind: kindOf(admission.Query), run: h.planSteps},
		{name: "PlanRounds", in: []arg{{"profile", "s"}}, out: []arg{{"rounds", "a(asas)"}, {"waits", "s"}}, kind: kindOf(admission.Query), run: h.planRounds},
		{name: "Plans", out: []arg{{"plans", "s"}}, kind: kindOf(admission.Status), run: h.answer(h.plans)},
		{name: "Account", out: []arg{{"account", "s"}}, kind: kindOf(admission.Status), run: h.answer(h.accounts)},
		{name: "History", out: []arg{{"runs", "s"}}, kind: kindOf(admission.Query), run: h.history},
		{name: "Usage", out: []arg{{"usage", "s"}}, kind: kindOf(admission.Status), run: h.answer(h.usages)},
		{name: "Acquire", in: []arg{{"options", "a{sv}"}}, out: []arg{{"lease", "s"}, {"partitions", "as"}, {"reason", "s"}, {"notes", "as"}}, kind: call.acquireKind, run: h.acquire},
		{name: "Release", in: []arg{{"lease", "s"}}, kind: kindOf(admission.Lease), run: h.release},
		{name: "Enter", in: []arg{{"lease", "s"}}, out: []arg{{"partitions", "as"}}, kind: kindOf(admission.Lease), run: h.enter},
		{name: "Extend", in: []arg{{"lease", "s"}, {"time", "t"}}, kind: kindOf(admission.Lease), run: h.extend},
		{name: "Queue", out: []arg{{"queue", "s"}}, kind: kindOf(admission.Status), run: h.queue},
		{name: "Dequeue", in: []arg{{"id", "u"}}, kind: kindOf(admission.Lease), run: h.dequeue},
	}
}

func (h *handler) apply(c call) ([]any, error) {
	by, err := h.authorise(c, actionApply, nil)
	if err != nil {
		return nil, err
	}
	state, err := h.control.Profiles.Apply(c.context(), by)
	return []any{state}, toBusError(err)
}

// use returns the method that selects a profile permanently or until reboot.
func (h *handler) use(untilReboot bool) func(call) ([]any, error) {
	return func(c call) ([]any, error) { return h.selects(c, Selection{UntilReboot: untilReboot}) }
}

// confirmWindowLimit limits the number of a call before it is checked.
const confirmWindowLimit = 365 * 24 * time.Hour

func (h *handler) useUntilConfirmed(c call) ([]any, error) {
	within := time.Duration(min(c.body[1].(uint64), uint64(confirmWindowLimit.Microseconds()))) * time.Microsecond
	if within == 0 {
		return nil, busError(errorArguments, "the time to confirm must not be 0")
	}
	return h.selects(c, Selection{UntilReboot: c.body[2].(bool), Confirm: within})
}

// selects makes a selection of the profile in the call.
func (h *handler) selects(c call, s Selection) ([]any, error) {
	profile, by, err := h.selector(c)
	if err != nil {
		return nil, err
	}
	s.Profile = profile
	state, err := h.control.Profiles.Use(c.context(), by, s)
	return []any{state}, toBusError(err)
}

// selector returns the profile in the call, and who may select it.
func (h *handler) selector(c call) (profile string, by Caller, err error) {
	if profile, err = c.profile(); err != nil {
		return "", Caller{}, err
	}
	by, err = h.authorise(c, actionUse, map[string]string{"profile": profile})
	return profile, by, err
}

func (h *handler) confirm(c call) ([]any, error) {
	profile, by, err := h.selector(c)
	if err != nil {
		return nil, err
	}
	return nil, toBusError(h.control.Profiles.Confirm(c.context(), by, profile))
}

func (h *handler) reload(c call) ([]any, error) {
	by, err := h.authorise(c, actionReload, nil)
	if err != nil {
		return nil, err
	}
	return nil, toBusError(h.control.Profiles.Reload(c.context(), by))
}

// plan serves any caller, so it computes one plan at a time.
func (h *handler) plan(c call) (Plan, error) {
	profile, err := c.profile()
	if err != nil {
		return Plan{}, err
	}
	ctx, cancel := context.WithTimeout(c.context(), queryTimeout)
	defer cancel()
	leave, err := h.planning.take(ctx, c.who.owner)
	if err != nil {
		return Plan{}, toBusError(err)
	}
	defer leave()
	p, err := h.control.Planner.Plan(ctx, c.caller(), profile)
	if err != nil {
		return Plan{}, toBusError(err)
	}
	return p, nil
}

func (h *handler) planSteps(c call) ([]any, error) {
	p, err := h.plan(c)
	if err != nil {
		return nil, err
	}
	return []any{p.Profile, list(p.Steps), list(p.Clients)}, nil
}

func (h *handler) planRounds(c call) ([]any, error) {
	p, err := h.plan(c)
	if err != nil {
		return nil, err
	}
	return []any{list(p.Rounds), p.Waits}, nil
}

// history serves any caller.
func (h *handler) history(c call) ([]any, error) {
	ctx, cancel := context.WithTimeout(c.context(), queryTimeout)
	defer cancel()
	text, err := h.control.Documents.History(ctx)
	return []any{text}, toBusError(err)
}

// answer returns a method that returns the result of a shared query to any caller.
func (h *handler) answer(queries sharedQueries) func(call) ([]any, error) {
	return func(c call) ([]any, error) {
		ctx, cancel := context.WithTimeout(c.context(), queryTimeout)
		defer cancel()
		text, err := queries.do(ctx, c.context(), c.who.uid)
		return []any{text}, toBusError(err)
	}
}

// maxProfileName limits the length of a profile's name in bytes, since an unknown name is
// compared with all known ones to suggest one.
const maxProfileName = 255

func (c call) profile() (string, error) {
	name := c.body[0].(string)
	if len(name) > maxProfileName {
		return "", busError(errorArguments, fmt.Sprintf("the profile's name is too long (found %d bytes, want at most %d)", len(name), maxProfileName))
	}
	return name, nil
}

// context ends with the daemon's connection to the bus. It does not end when
// the caller disconnects, so that a requested change is completed.
func (c call) context() context.Context { return c.conn.Context() }
