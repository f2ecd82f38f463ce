package agent

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"

	"dcm/internal/frontends/admission"
	"dcm/internal/frontends/varlink"
)

// Name is the name of the interface. The 1 is its version: members are only added, never
// changed.
const Name = "org.deviceconfig.Agent1"

//go:embed org.deviceconfig.Agent1.varlink
var description string

// Host carries out the calls. An error of another type than this package's is sent as a
// [*FailedError].
type Host interface {
	// Account gathers and returns the current status in JSON.
	Account(ctx context.Context) (json.RawMessage, error)
	// Follow sends the current account, and then each changed one, until ctx ends.
	Follow(ctx context.Context, send func(json.RawMessage) error) error
	// PlanFor returns what UseFor would do. text is a configuration file, and profile the name of
	// a profile in it.
	PlanFor(ctx context.Context, text, profile string) (Plan, error)
	// UseFor installs the configuration and selects the profile, both or neither. It returns when
	// the profile is on the GPUs.
	UseFor(ctx context.Context, from varlink.Peer, text, profile string) (Outcome, error)
}

// Plan lists what a change would do.
type Plan struct {
	Steps    []string `json:"steps"`    // empty if the GPUs match the profile
	Restarts []string `json:"restarts"` // units
	Holders  []string `json:"holders"`  // processes that block the change now
	Reload   bool     `json:"reload"`   // a driver is reloaded; meanwhile no GPU of the node can be used
	Warnings []string `json:"warnings"`
	GPUs     []string `json:"gpus"` // PCI addresses of the GPUs that change
}

// Outcome is the result of a change that did not fail.
type Outcome struct {
	Result  string `json:"result"` // "applied", "unchanged"
	Summary string `json:"summary"`
}

// Interface returns the interface for a server. The limiter limits its calls.
func Interface(h Host, l *admission.Limiter) varlink.Interface {
	return varlink.Interface{Name: Name, Description: description, Methods: map[string]varlink.Method{
		"Account": admitted(l, admission.Status, account(h)),
		"PlanFor": admitted(l, admission.Query, planFor(h)),
		"UseFor":  admitted(l, admission.Change, useFor(h)),
	}}
}

// admitted wraps a method: it applies the limits to the connected user before the method does any
// work.
func admitted(l *admission.Limiter, kind admission.Kind, run varlink.Method) varlink.Method {
	return func(ctx context.Context, from varlink.Peer, p varlink.Parameters, send func(any) error) (any, error) {
		leave, err := l.Enter(ctx, from.UID, kind)
		if limit, ok := errors.AsType[*admission.LimitError](err); ok {
			return nil, toVarlinkError(&FailedError{Reason: limit.Text, Hint: "try again", Undone: true})
		}
		if err != nil {
			return nil, err
		}
		defer leave()
		return run(ctx, from, p, send)
	}
}

type accountReply struct {
	Account json.RawMessage `json:"account"`
}

func account(h Host) varlink.Method {
	return func(ctx context.Context, _ varlink.Peer, p varlink.Parameters, send func(any) error) (any, error) {
		if err := p.Into(nil); err != nil {
			return nil, err
		}
		if send != nil {
			return nil, toVarlinkError(h.Follow(ctx, func(a json.RawMessage) error { return send(accountReply{a}) }))
		}
		a, err := h.Account(ctx)
		return accountReply{a}, toVarlinkError(err)
	}
}

func planFor(h Host) varlink.Method {
	return func(ctx context.Context, _ varlink.Peer, p varlink.Parameters, _ func(any) error) (any, error) {
		text, profile, err := textAndProfile(p)
		if err != nil {
			return nil, err
		}
		plan, err := h.PlanFor(ctx, text, profile)
		for _, list := range []*[]string{&plan.Steps, &plan.Restarts, &plan.Holders, &plan.Warnings, &plan.GPUs} {
			if *list == nil {
				*list = []string{}
			}
		}
		return plan, toVarlinkError(err)
	}
}

func useFor(h Host) varlink.Method {
	return func(ctx context.Context, from varlink.Peer, p varlink.Parameters, _ func(any) error) (any, error) {
		text, profile, err := textAndProfile(p)
		if err != nil {
			return nil, err
		}
		outcome, err := h.UseFor(ctx, from, text, profile)
		return outcome, toVarlinkError(err)
	}
}

func textAndProfile(p varlink.Parameters) (text, profile string, err error) {
	err = p.Into(map[string]any{"text": &text, "profile": &profile})
	return text, profile, err
}
