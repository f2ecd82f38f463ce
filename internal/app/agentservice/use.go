package agentservice

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"dcm/internal/engine/config"
	"dcm/internal/engine/config/selection"
	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/agent"
	"dcm/internal/frontends/dbusapi"
	"dcm/internal/frontends/status"
	"dcm/internal/frontends/varlink"
	"dcm/internal/sanitize"
)

// daemonRestartTimeout is how long a daemon that has ended may take to answer again.
const daemonRestartTimeout = 2 * time.Minute

// UseFor installs an agent's text, selects the profile, and waits until it is on the GPUs.
func (a *server) UseFor(ctx context.Context, from varlink.Peer, text, profile string) (agent.Outcome, error) {
	select {
	case a.changing <- struct{}{}:
		defer func() { <-a.changing }()
	case <-ctx.Done():
		return agent.Outcome{}, ctx.Err()
	}
	who := a.host.Who(from.PID, from.UID)
	name := sanitize.Text(profile)
	log := a.log.With("uid", who.UID, "user", who.User, "by_unit", who.Unit, "profile", name)
	out, err := a.use(ctx, text, profile)
	var failed *agent.FailedError
	switch {
	case err == nil:
		log.Info(fmt.Sprintf("an agent, %s, has selected %s: %s", who, name, out.Summary))
	case errors.As(err, &failed) && !failed.Undone:
		log.Warn(fmt.Sprintf("an agent, %s, has selected %s, which is not on the GPUs: %v", who, name, err))
	default:
		log.Warn(fmt.Sprintf("the selection of an agent, %s, is refused: %v", who, err))
	}
	return out, err
}

func (a *server) use(ctx context.Context, text, profile string) (agent.Outcome, error) {
	i, err := a.lockedPlan(ctx, text, profile)
	if err != nil {
		return agent.Outcome{}, err
	}
	if e := i.refusal(); e != nil {
		return agent.Outcome{}, &agent.FailedError{Reason: e.Text, Hint: runstate.Withdrawn(e.Hint), Undone: true, Busy: len(i.holders) > 0}
	}
	d, err := dialRunningDaemon(ctx)
	if err != nil {
		return agent.Outcome{}, err
	}
	defer d.Close()
	undo, err := a.install(text, profile)
	if err != nil {
		return agent.Outcome{}, configError(err)
	}
	if err := d.applyAndWait(ctx); err != nil {
		return agent.Outcome{}, a.undoFailed(ctx, d, err, shapes(i.Devices), undo)
	}
	out := agent.Outcome{Result: string(runstate.Applied), Summary: "profile " + profile + " is on the GPUs"}
	if len(i.Steps) == 0 {
		out.Result = string(runstate.Unchanged)
	}
	if text, err := account(ctx, d.Client); err == nil {
		var now status.Account
		if json.Unmarshal(text, &now) == nil {
			out.Summary = now.Health.Summary
		}
	}
	return out, nil
}

func (a *server) lockedPlan(ctx context.Context, text, profile string) (agentPlan, error) {
	a.files.Lock()
	defer a.files.Unlock()
	return a.planText(ctx, text, profile)
}

func (a *server) install(text, profile string) (undo func() error, err error) {
	a.files.Lock()
	defer a.files.Unlock()
	return selection.Install(config.DefaultPaths(a.host.Root), text, profile)
}

// undoFailed returns the error of a failed change. If the GPUs are unchanged, it restores the former
// selection, so that the daemon does not retry a change that has failed for the caller.
func (a *server) undoFailed(ctx context.Context, d *daemonClient, err error, before string, undo func() error) error {
	out := &agent.FailedError{Reason: err.Error()}
	if ctx.Err() != nil {
		out.Reason, out.Hint = "dcm-agent.service was stopped before the end of the run, which continues", "read the account"
		return out
	}
	if s, none := runstate.ReadState(a.host.Runtime()); none == nil && s != nil && s.Error != nil {
		out.Reason, out.Hint = s.Error.Text, s.Error.Hint
		out.Busy = s.Error.Transient && (len(s.Holders) > 0 || s.Error.Unseen != nil)
	}
	devices, unseen := a.node.Devices(ctx)
	if unseen != nil || shapes(devices) != before {
		return out
	}
	if err := undo(); err != nil {
		a.log.Warn("cannot restore the former selection: " + err.Error())
		return out
	}
	out.Undone, out.Hint = true, runstate.Withdrawn(out.Hint)
	_ = d.applyAndWait(ctx) // it may fail as before
	return out
}

// daemonClient is a connection to the daemon with a channel that receives after changes.
type daemonClient struct {
	*dbusapi.Client
	changed <-chan struct{}
}

// dialRunningDaemon connects to the daemon, or returns an error if it does not run.
func dialRunningDaemon(ctx context.Context) (*daemonClient, error) {
	c, err := dialDaemon(ctx)
	if err != nil {
		return nil, err
	}
	d := &daemonClient{Client: c}
	if d.changed, err = c.Changes(ctx); err == nil {
		_, err = c.Manager(ctx)
	}
	if err != nil {
		c.Close()
		return nil, noAnswer(err)
	}
	return d, nil
}

// applyAndWait calls the daemon to apply the configuration, and returns when that is done. If the
// daemon ends before, applyAndWait calls it again after its restart.
func (d *daemonClient) applyAndWait(ctx context.Context) error {
	for {
		_, err := d.Apply(ctx)
		if !errors.Is(err, dbusapi.ErrAbsent) && !errors.Is(err, dbusapi.ErrGone) {
			return err
		}
		if !d.awaitRestart(ctx) {
			return err
		}
	}
}

func (d *daemonClient) awaitRestart(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, daemonRestartTimeout)
	defer cancel()
	for {
		if _, err := d.Manager(ctx); err == nil {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case _, ok := <-d.changed:
			if !ok {
				return false
			}
		}
	}
}
