package dbusapi

import (
	"context"
	"errors"
	"time"

	"dcm/internal/frontends/admission"
	"dcm/internal/linux/caller"
)

// Control is whom the methods ask. An error that wraps a [ConfigError] is told to
// be one of the configuration.
type Control interface {
	// Apply has the GPUs looked at and, if need be, changed, and returns what the
	// daemon is at when it has come to rest. That the profile is not on the GPUs
	// then is an error.
	Apply(ctx context.Context, who Caller) (state string, err error)
	// Known tells why the profile cannot be one that Use selects; it looks at nothing
	// but the effective configuration, and reads no file.
	Known(profile string) error
	// Use selects the profile for good, and then does as Apply.
	Use(ctx context.Context, who Caller, profile string) (state string, err error)
	// Reload has the configuration read, and the GPUs looked at. That the
	// configuration cannot be used is an error.
	Reload(ctx context.Context, who Caller) error
	// Plan tells what would be done for the profile, "" meaning the selected one. The
	// configuration is read for root alone; for others the effective one counts.
	Plan(ctx context.Context, who Caller, profile string) (Plan, error)
	// Account takes an account of what is so at this moment, in its JSON form.
	Account(ctx context.Context) (string, error)
	// History tells the last runs, in JSON.
	History(ctx context.Context) (string, error)
	// Usage looks how much of the partitions is in use, and tells it in JSON.
	Usage(ctx context.Context) (string, error)
	LeaseService
}

// Caller is who calls a method, as the bus knows it. By the time that something is
// read by the PID it may be another process's.
type Caller struct {
	UID           uint32
	Owner         uint32          // the user that it counts for, and whose leases are its own
	Groups        []uint32        // none if the bus does not tell
	PID           int             // 0 if the bus does not tell
	Process       *caller.Process // of Acquire alone: open until the call is over
	ConnectionAge uint64          // of a connection older than dcm's own: the less, the older; else 0
}

func (c call) caller() Caller {
	return Caller{UID: c.who.uid, Owner: c.who.owner, Groups: c.who.groups, PID: c.who.pid}
}

// Plan is what would be done to have a profile on the GPUs.
type Plan struct {
	Profile string
	Steps   []Step
	Clients []string // the units that would be restarted
}

// Step is one change. On the bus it is (sasss).
type Step struct {
	Kind     string
	Devices  []string // addresses; none for a step that is for the whole node
	From, To string
}

// ConfigError is a configuration that cannot be used.
type ConfigError struct{ Err error }

func (e *ConfigError) Error() string { return e.Err.Error() }
func (e *ConfigError) Unwrap() error { return e.Err }

// OvertakenError is that another profile was selected before the daemon was at rest.
type OvertakenError struct{ Err error }

func (e *OvertakenError) Error() string { return e.Err.Error() }
func (e *OvertakenError) Unwrap() error { return e.Err }

// queryTimeout is what one answer that changes nothing may take.
const queryTimeout = 30 * time.Second

// methods are those of the manager.
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
	who, err := s.authorise(c, actionApply, nil)
	if err != nil {
		return nil, err
	}
	state, err := s.control.Apply(s.ctx(c), who)
	return []any{state}, toBusError(err)
}

func (s *Service) use(c call) ([]any, error) {
	profile, err := c.profile()
	if err != nil {
		return nil, err
	}
	who, err := s.authorise(c, actionUse, map[string]string{"profile": profile})
	if err != nil {
		return nil, err
	}
	state, err := s.control.Use(s.ctx(c), who, profile)
	return []any{state}, toBusError(err)
}

func (s *Service) reload(c call) ([]any, error) {
	who, err := s.authorise(c, actionReload, nil)
	if err != nil {
		return nil, err
	}
	return nil, toBusError(s.control.Reload(s.ctx(c), who))
}

// plan is for everyone, and so one at a time.
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

// history is for everyone.
func (s *Service) history(c call) ([]any, error) {
	ctx, cancel := context.WithTimeout(s.ctx(c), queryTimeout)
	defer cancel()
	text, err := s.control.History(ctx)
	return []any{text}, toBusError(err)
}

// answer is what everyone may have looked at.
func (s *Service) answer(at sharedQueries) func(call) ([]any, error) {
	return func(c call) ([]any, error) {
		ctx, cancel := context.WithTimeout(s.ctx(c), queryTimeout)
		defer cancel()
		text, err := at.do(ctx, s.ctx(c), c.who.uid)
		return []any{text}, toBusError(err)
	}
}

// maxProfileName is how long the name of a profile may be. Anyone can send any text, and
// a name that is not there is compared with those that are.
const maxProfileName = 255

func (c call) profile() (string, error) {
	name := c.body[0].(string)
	if len(name) > maxProfileName {
		return "", busError(errorArguments, "no profile has so long a name")
	}
	return name, nil
}

// ctx is the context of a call: it ends with the connection, and so with the
// service. A caller that goes away does not end what it has asked for.
func (s *Service) ctx(c call) context.Context { return c.conn.Context() }

// toBusError is an error as it goes over the bus.
func toBusError(err error) error {
	var config *ConfigError
	var short *InsufficientError
	var overtaken *OvertakenError
	var limit *admission.LimitError
	var impossible *ImpossibleError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &limit):
		return busError(errorLimit, err.Error())
	case errors.As(err, &overtaken):
		return busError(errorOvertaken, err.Error())
	case err == context.DeadlineExceeded: // by itself: of a wait, for others or for a turn
		return busError(errorLimit, "dcm has too much to do to answer in time; try again")
	case errors.As(err, &short):
		return busError(errorInsufficient, err.Error())
	case errors.As(err, &impossible):
		return busError(errorImpossible, err.Error())
	case errors.As(err, &config):
		return busError(errorConfiguration, err.Error())
	}
	return busError(errorFailed, err.Error())
}
