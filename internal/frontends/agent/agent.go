package agent

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"

	"dcm/internal/frontends/admission"
	"dcm/internal/frontends/varlink"
)

// Name is that of the interface. The 1 is its version: within it things are added, never
// changed.
const Name = "org.deviceconfig.Agent1"

//go:embed org.deviceconfig.Agent1.varlink
var description string

// Host does what is asked for. Its errors are those of this package, or of no call: a
// [*FailedError] is made of them.
type Host interface {
	// Account takes an account of what is so at this moment, in its JSON form.
	Account(ctx context.Context) (json.RawMessage, error)
	// Follow tells each of an account that differs from the one before, the present one
	// first, until ctx ends.
	Follow(ctx context.Context, tell func(json.RawMessage) error) error
	// PlanFor tells what taking the profile out of the text would do.
	PlanFor(ctx context.Context, text, profile string) (Plan, error)
	// UseFor installs the text and selects the profile, at once or not at all, and
	// returns when that is on the GPUs.
	UseFor(ctx context.Context, from varlink.Peer, text, profile string) (Outcome, error)
}

// Plan is what would be done.
type Plan struct {
	Steps    []string `json:"steps"`    // none: the GPUs are as the profile says
	Restarts []string `json:"restarts"` // units
	Holders  []string `json:"holders"`  // who it would be refused for now
	Reload   bool     `json:"reload"`   // of a driver: no GPU of the node is of use meanwhile
	Warnings []string `json:"warnings"`
}

// Outcome is how a change ended that did not fail.
type Outcome struct {
	Result  string `json:"result"` // "applied", "unchanged"
	Summary string `json:"summary"`
}

// Interface is the interface, as a server has it. Calls are admitted by the limiter.
func Interface(h Host, l *admission.Limiter) varlink.Interface {
	return varlink.Interface{Name: Name, Description: description, Methods: map[string]varlink.Method{
		"Account": admitted(l, admission.Status, account(h)),
		"PlanFor": admitted(l, admission.Query, planFor(h)),
		"UseFor":  admitted(l, admission.Change, useFor(h)),
	}}
}

// admitted is a method whose calls are counted for the user that has connected, before
// anything is done for them.
func admitted(l *admission.Limiter, kind admission.Kind, run varlink.Method) varlink.Method {
	return func(ctx context.Context, from varlink.Peer, p varlink.Parameters, send func(any) error) (any, error) {
		leave, err := l.Enter(ctx, from.UID, kind)
		if limit, ok := errors.AsType[*admission.LimitError](err); ok {
			return nil, told(&FailedError{Reason: limit.Text, Cure: "try again", Undone: true})
		}
		if err != nil {
			return nil, err
		}
		defer leave()
		return run(ctx, from, p, send)
	}
}

type accounted struct {
	Account json.RawMessage `json:"account"`
}

func account(h Host) varlink.Method {
	return func(ctx context.Context, _ varlink.Peer, p varlink.Parameters, send func(any) error) (any, error) {
		if err := p.Into(nil); err != nil {
			return nil, err
		}
		if send != nil {
			return nil, told(h.Follow(ctx, func(a json.RawMessage) error { return send(accounted{a}) }))
		}
		a, err := h.Account(ctx)
		return accounted{a}, told(err)
	}
}

func planFor(h Host) varlink.Method {
	return func(ctx context.Context, _ varlink.Peer, p varlink.Parameters, _ func(any) error) (any, error) {
		text, profile, err := wanted(p)
		if err != nil {
			return nil, err
		}
		plan, err := h.PlanFor(ctx, text, profile)
		for _, list := range []*[]string{&plan.Steps, &plan.Restarts, &plan.Holders, &plan.Warnings} {
			if *list == nil {
				*list = []string{}
			}
		}
		return plan, told(err)
	}
}

func useFor(h Host) varlink.Method {
	return func(ctx context.Context, from varlink.Peer, p varlink.Parameters, _ func(any) error) (any, error) {
		text, profile, err := wanted(p)
		if err != nil {
			return nil, err
		}
		outcome, err := h.UseFor(ctx, from, text, profile)
		return outcome, told(err)
	}
}

func wanted(p varlink.Parameters) (text, profile string, err error) {
	err = p.Into(map[string]any{"text": &text, "profile": &profile})
	return text, profile, err
}
