package dbusapi

import (
	"context"
	"fmt"
	"time"

	"dcm/internal/frontends/admission"
)

// queryTimeout limits a call that changes nothing.
const queryTimeout = 30 * time.Second

// methods returns the methods of the daemon's interface.
func (s *Service) methods() []method {
	return []method{
		{name: "Apply", out: []arg{{"state", "s"}}, run: s.admitted(kindOf(admission.Change), s.apply)},
		{name: "Use", in: []arg{{"profile", "s"}}, out: []arg{{"state", "s"}}, run: s.admitted(kindOf(admission.Change), s.use)},
		{name: "Reload", run: s.admitted(kindOf(admission.Change), s.reload)},
		{name: "Plan", in: []arg{{"profile", "s"}}, out: []arg{{"profile", "s"}, {"steps", "a(sasss)"}, {"clients", "as"}}, run: s.admitted(kindOf(admission.Query), s.plan)},
		{name: "Account", out: []arg{{"account", "s"}}, run: s.admitted(kindOf(admission.Status), s.answer(s.accounts))},
		{name: "History", out: []arg{{"runs", "s"}}, run: s.admitted(kindOf(admission.Query), s.history)},
		{name: "Usage", out: []arg{{"usage", "s"}}, run: s.admitted(kindOf(admission.Status), s.answer(s.usages))},
		{name: "Acquire", in: []arg{{"options", "a{sv}"}}, out: []arg{{"lease", "s"}, {"partitions", "as"}, {"reason", "s"}, {"notes", "as"}}, run: s.admitted(call.acquireKind, s.acquire)},
		{name: "Release", in: []arg{{"lease", "s"}}, run: s.admitted(kindOf(admission.Lease), s.release)},
		{name: "Queue", out: []arg{{"queue", "s"}}, run: s.admitted(kindOf(admission.Status), s.queue)},
		{name: "Dequeue", in: []arg{{"id", "u"}}, run: s.admitted(kindOf(admission.Lease), s.dequeue)},
	}
}

func (s *Service) apply(c call) ([]any, error) {
	by, err := s.authorise(c, actionApply, nil)
	if err != nil {
		return nil, err
	}
	state, err := s.control.Apply(s.ctx(c), by)
	return []any{state}, toBusError(err)
}

func (s *Service) use(c call) ([]any, error) {
	profile, err := c.profile()
	if err != nil {
		return nil, err
	}
	by, err := s.authorise(c, actionUse, map[string]string{"profile": profile})
	if err != nil {
		return nil, err
	}
	state, err := s.control.Use(s.ctx(c), by, profile)
	return []any{state}, toBusError(err)
}

func (s *Service) reload(c call) ([]any, error) {
	by, err := s.authorise(c, actionReload, nil)
	if err != nil {
		return nil, err
	}
	return nil, toBusError(s.control.Reload(s.ctx(c), by))
}

// plan serves any caller, so it computes one plan at a time.
func (s *Service) plan(c call) ([]any, error) {
	profile, err := c.profile()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(s.ctx(c), queryTimeout)
	defer cancel()
	leave, err := s.planning.take(ctx, c.who.owner)
	if err != nil {
		return nil, toBusError(err)
	}
	defer leave()
	p, err := s.control.Plan(ctx, c.caller(), profile)
	if err != nil {
		return nil, toBusError(err)
	}
	return []any{p.Profile, list(p.Steps), list(p.Clients)}, nil
}

// history serves any caller.
func (s *Service) history(c call) ([]any, error) {
	ctx, cancel := context.WithTimeout(s.ctx(c), queryTimeout)
	defer cancel()
	text, err := s.control.History(ctx)
	return []any{text}, toBusError(err)
}

// answer returns a method that returns the result of a shared query to any caller.
func (s *Service) answer(queries sharedQueries) func(call) ([]any, error) {
	return func(c call) ([]any, error) {
		ctx, cancel := context.WithTimeout(s.ctx(c), queryTimeout)
		defer cancel()
		text, err := queries.do(ctx, s.ctx(c), c.who.uid)
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

// ctx returns the context of a call. It ends with the daemon's connection to the bus. It does not end
// when the caller disconnects, so that a requested change is completed.
func (s *Service) ctx(c call) context.Context { return c.conn.Context() }
