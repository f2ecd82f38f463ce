package agentservice

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"dcm/internal/app/plan"
	"dcm/internal/engine/apply"
	"dcm/internal/engine/config"
	"dcm/internal/engine/config/selection"
	"dcm/internal/engine/config/source"
	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/agent"
	"dcm/internal/gpu"
	"dcm/internal/leases/reservation"
)

// agentPlan lists what an agent's text would change.
type agentPlan struct {
	*selection.Proposal
	apply.Difference
	restarts  []string
	holders   []runstate.Holder // processes that block the change and would not be restarted
	uncertain error             // why holders may not be complete
}

// PlanFor returns what UseFor would do.
func (a *server) PlanFor(ctx context.Context, text, profile string) (agent.Plan, error) {
	a.files.Lock()
	defer a.files.Unlock()
	i, err := a.planText(ctx, text, profile)
	if err != nil {
		return agent.Plan{}, err
	}
	out := agent.Plan{Steps: []string{}, Restarts: i.restarts, Reload: i.Steps.Reloads(), Warnings: i.Notes, GPUs: i.changing()}
	for _, s := range i.Steps {
		out.Steps = append(out.Steps, s.String())
	}
	for _, h := range i.holders {
		out.Holders = append(out.Holders, h.String())
	}
	if refused := i.refusal(); refused != nil {
		out.Warnings = append(out.Warnings, "it would be refused now: "+refused.Text)
	}
	if i.uncertain != nil {
		out.Warnings = append(out.Warnings, i.uncertain.Error())
	}
	return out, nil
}

// changing returns the addresses of the GPUs that change.
func (i agentPlan) changing() []string {
	out := []string{}
	if i.SingleGPUs() {
		for _, c := range gpu.Changes(i.Steps, i.Devices) {
			if !c.KeepsUsers {
				out = append(out, string(c.GPU))
			}
		}
		return out
	}
	for _, g := range i.GPUs {
		out = append(out, string(g.Address))
	}
	return out
}

func (i agentPlan) refusal() *runstate.Error { return i.Refusal(i.Config.ReloadDriver, i.holders) }

// planText checks an agent's text and plans its changes on this host. The caller holds files.
func (a *server) planText(ctx context.Context, text, profile string) (agentPlan, error) {
	p, err := selection.Propose(config.DefaultPaths(a.host.Root), text, profile)
	if err != nil {
		return agentPlan{}, configError(err)
	}
	devices, err := a.node.Devices(ctx)
	if err != nil {
		return agentPlan{}, failedError(err)
	}
	i := agentPlan{Proposal: p}
	if i.Difference, err = apply.Compare(devices, p.Config.Profile); err != nil {
		if len(i.GPUs) == 0 {
			return i, failedError(err)
		}
		return i, &agent.ProfileError{Profile: profile, Accepted: p.Names, Err: err}
	}
	if len(i.Steps) == 0 {
		return i, nil
	}
	if err := i.Judge(reservation.Fits(a.host, p.Config.Reservations)); err != nil {
		return i, failedError(err)
	}
	a.findHolders(ctx, &i)
	return i, nil
}

// findHolders finds the units that would be restarted, and the holders that would stay.
func (a *server) findHolders(ctx context.Context, i *agentPlan) {
	var use gpu.Usage
	var blocking []runstate.Holder
	var unsure error
	if i.Difference, use, unsure = plan.WithUse(ctx, a.host, i.Config, i.Difference, a.node); unsure == nil {
		blocking, unsure = i.Blockers(use)
	}
	f, err := plan.Foresee(ctx, a.host, i.Config, i.Difference, blocking)
	i.uncertain = errors.Join(unsure, err)
	i.restarts, i.holders = append([]string{}, f.Restarted...), f.Holders
	if err != nil {
		i.holders = blocking
	}
}

// failedError converts an error before which nothing was changed.
func failedError(err error) error {
	e := apply.Explain(err)
	return &agent.FailedError{Reason: e.Text, Hint: e.Hint, Undone: true}
}

// configError converts an error of the configuration.
func configError(err error) error {
	var problems *source.Errors
	var none *selection.NoProfileError
	var kept *config.NotAllowedError
	switch {
	case errors.As(err, &none):
		return &agent.ProfileError{Profile: none.Profile, Accepted: none.Accepted, Err: none}
	case errors.As(err, &kept):
		return &agent.AllowanceError{Key: kept.Key, Err: kept}
	case errors.As(err, &problems):
		return &agent.ConfigurationError{Err: problems}
	}
	return &agent.FailedError{Reason: err.Error(), Undone: true}
}

// shapes returns a text of the GPUs' shapes only, without what a reload may change.
func shapes(devices []gpu.Device) string {
	var b strings.Builder
	for _, d := range devices {
		fmt.Fprintf(&b, "%s %s\n", d.Address, d.Shape().Key())
	}
	return b.String()
}
