package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"dcm/internal/app/plan"
	"dcm/internal/engine/apply"
	"dcm/internal/engine/config"
	"dcm/internal/engine/config/selection"
	"dcm/internal/engine/daemon"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/dbusapi"
	"dcm/internal/gpu"
	"dcm/internal/linux/unitname"
)

// control executes calls from the bus that concern profiles. It is a [dbusapi.ProfileService] and a
// [dbusapi.Planner].
type control struct {
	host     *host.Host
	node     *gpu.Node // reads sysfs, and starts a vendor program where that is needed
	requests chan<- daemon.Request
	caughtUp func(context.Context) // waits until the bus shows the last saved state
	config   *effectiveConfig
}

// ask requests a pass of the daemon, and waits until the daemon is at rest.
func (c control) ask(ctx context.Context, who dbusapi.Caller, why string) (runstate.State, error) {
	return c.request(ctx, c.cause(who, why))
}

// cause returns why a caller's run begins, and who the caller is. If the caller is a command of dcm, the daemon
// replaces it by the command's note. It is not read here: the event of the command's edit may need it first.
func (c control) cause(who dbusapi.Caller, why string) runstate.Asked {
	return runstate.Asked{Why: why, Who: c.host.Who(who.PID, who.UID)}
}

// request requests a pass from the daemon and returns the state after it.
func (c control) request(ctx context.Context, asked runstate.Asked) (runstate.State, error) {
	done := make(chan runstate.State, 1)
	select {
	case c.requests <- daemon.Request{Asked: asked, Done: done}:
	case <-ctx.Done():
		return runstate.State{}, ctx.Err()
	}
	select {
	case s := <-done:
		c.caughtUp(ctx) // so that the caller sees the result
		return s, nil
	case <-ctx.Done():
		return runstate.State{}, ctx.Err()
	}
}

func (c control) Apply(ctx context.Context, who dbusapi.Caller) (string, error) {
	why := "Apply() was called over D-Bus"
	if w := c.host.Who(who.PID, who.UID); w.UID == 0 && w.Unit == unitname.Agent {
		why = "an agent has selected it"
	}
	return c.apply(ctx, who, why)
}

func (c control) apply(ctx context.Context, who dbusapi.Caller, why string) (string, error) {
	s, err := c.ask(ctx, who, why)
	if err != nil {
		return "", err
	}
	return verdict(s)
}

// verdict returns the daemon's state as the reply to Apply.
func verdict(s runstate.State) (string, error) {
	switch {
	case s.Config != "":
		return "", &dbusapi.ConfigError{Err: errors.New(s.Config)}
	case s.Phase != runstate.InSync && s.Phase != runstate.Idle, s.Error != nil:
		return "", daemon.Failure(&s)
	}
	return string(s.Phase), nil
}

// Known uses the effective configuration: every user may call it.
func (c control) Known(profile string) error {
	if profile == config.None {
		return nil
	}
	_, err := c.config.get().Lookup(profile)
	return err
}

func (c control) Use(ctx context.Context, who dbusapi.Caller, chosen dbusapi.Selection) (string, error) {
	profile, called := chosen.Profile, "Use"
	if profile == "" {
		return "", errors.New("nothing was changed: no profile is named")
	}
	switch {
	case chosen.Confirm > 0:
		called = "UseUntilConfirmed"
	case chosen.UntilReboot:
		called = "UseUntilReboot"
	}
	// The event of the written file may begin the run before the request does.
	cause := c.cause(who, called+"("+profile+") was called over D-Bus")
	note, _ := c.host.Note(cause, &runstate.Selection{Profile: config.OrEmpty(profile)}) // without it the request still has the cause
	if err := c.choose(ctx, chosen); err != nil {
		_ = c.host.Forget(note) // otherwise it expires
		return "", err
	}
	s, err := c.request(ctx, cause)
	if err != nil {
		return "", err
	}
	if now := s.Profile; s.Config == "" && now != profile && (now != "" || profile != config.None) {
		if now == "" {
			now = "no profile"
		}
		return "", &dbusapi.OvertakenError{Err: fmt.Errorf("profile %s: overtaken by another selection (found %s by %s)", profile, now, s.Source)}
	}
	return verdict(s)
}

// choose saves the selection if the GPUs support the profile.
func (c control) choose(ctx context.Context, chosen dbusapi.Selection) error {
	c.config.reading.Lock()
	defer c.config.reading.Unlock()
	if chosen.Profile != config.None {
		cfg, err := c.read()
		if err == nil {
			_, err = c.compare(ctx, cfg, chosen.Profile)
		}
		if err != nil {
			return fmt.Errorf("nothing was changed: %w", err)
		}
	}
	switch {
	case chosen.Confirm > 0:
		return selection.SelectUnconfirmed(config.DefaultPaths(c.host.Root), chosen.Profile, chosen.Confirm, !chosen.UntilReboot)
	case chosen.UntilReboot:
		return selection.SelectRuntime(config.DefaultPaths(c.host.Root), chosen.Profile)
	}
	return host.Select(c.host, chosen.Profile)
}

func (c control) Confirm(_ context.Context, _ dbusapi.Caller, profile string) error {
	c.config.reading.Lock()
	defer c.config.reading.Unlock()
	_, err := selection.Confirm(config.DefaultPaths(c.host.Root), profile)
	if errors.Is(err, selection.ErrNoneUnconfirmed) {
		return &dbusapi.OvertakenError{Err: err}
	}
	return err
}

func (c control) Reload(ctx context.Context, who dbusapi.Caller) error {
	s, err := c.ask(ctx, who, "Reload() was called over D-Bus")
	if err == nil && s.Config != "" {
		err = &dbusapi.ConfigError{Err: errors.New(s.Config)}
	}
	return err
}

func (c control) Plan(ctx context.Context, who dbusapi.Caller, profile string) (dbusapi.Plan, error) {
	cfg := c.config.get()
	if who.UID == 0 {
		c.config.reading.Lock()
		defer c.config.reading.Unlock()
		var err error
		if cfg, err = c.read(); err != nil {
			return dbusapi.Plan{}, err
		}
	}
	d, err := c.compare(ctx, cfg, profile)
	if err == nil && plan.Instances(d.Steps) {
		d, _, err = plan.WithUse(ctx, c.host, cfg, d, c.node)
	}
	if err != nil {
		return dbusapi.Plan{}, err
	}
	p := dbusapi.Plan{Profile: cfg.Selected}
	if profile != "" {
		p.Profile = profile
	}
	for _, s := range d.Steps {
		step := dbusapi.Step{Kind: string(s.Kind), Devices: texts(s.Hive), From: s.From, To: s.To}
		if len(s.Hive) == 0 && s.GPU != "" {
			step.Devices = []string{string(s.GPU)}
		}
		p.Steps = append(p.Steps, step)
	}
	if len(p.Steps) > 0 {
		var f daemon.Forecast
		f, err = plan.Foresee(ctx, c.host, cfg, d, nil)
		p.Clients = append([]string{}, f.Restarted...)
		addRounds(&p, f)
	}
	return p, err
}

// Plans uses the effective configuration: every user may call it.
func (c control) Plans(ctx context.Context) (string, error) {
	all, err := plan.Outlooks(ctx, c.host, c.config.get(), c.node)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(all)
	return string(text), err
}

// addRounds adds the rounds of a forecast.
func addRounds(p *dbusapi.Plan, f daemon.Forecast) {
	for _, r := range f.Rounds {
		p.Rounds = append(p.Rounds, dbusapi.Round{GPUs: texts(r.GPUs), Clients: r.Units})
	}
	for _, why := range []*runstate.Error{f.Waits, f.Refused} {
		if why != nil {
			p.Waits = why.Text
		}
	}
}

// read reads the configuration. Callers hold config.reading.
func (c control) read() (*config.Config, error) {
	cfg, err := c.host.Config()
	if err != nil {
		return nil, &dbusapi.ConfigError{Err: err}
	}
	return cfg, nil
}

// compare plans the named profile, or for "" the selected one.
func (c control) compare(ctx context.Context, cfg *config.Config, profile string) (apply.Difference, error) {
	var named []string
	if profile != "" {
		named = []string{profile}
	}
	d, _, err := plan.CompareOn(ctx, c.host, cfg, c.node, named...)
	return d, err
}

func texts[S ~string](items []S) []string {
	out := make([]string, len(items))
	for i, s := range items {
		out[i] = string(s)
	}
	return out
}
