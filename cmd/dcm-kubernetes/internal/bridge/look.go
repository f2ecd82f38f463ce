package bridge

import (
	"context"
	"errors"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"time"

	core "k8s.io/api/core/v1"

	"dcm/cmd/dcm-kubernetes/internal/agent"
	"dcm/cmd/dcm-kubernetes/internal/cluster"
	"dcm/cmd/dcm-kubernetes/internal/sequence"
)

// look collects the input of the decision. If the copy of the node that the watch keeps shows that
// nothing has to be done, look makes no request to the API server. The node is nil while it is
// unknown.
func (b *Bridge) look(ctx context.Context) (*core.Node, sequence.Input, error) {
	seen := sequence.Input{Now: time.Now(), ID: id(), Times: b.Times, Config: b.Config.Read(), Tidy: b.tidy, Used: b.used}
	seen.Times.Budget = jitter(seen.Times.Budget)
	node := b.latest()
	var known bool
	if seen.Host, known = b.host.now(); !known || node == nil {
		return nil, seen, nil
	}
	var err error
	if seen.Node, err = cluster.View(node); err != nil {
		return node, seen, err
	}
	switch op := seen.Node.Op; {
	case op == nil && sequence.Wants(seen) == (sequence.Wanted{}):
		return node, seen, nil
	case op != nil && op.Phase == sequence.Waiting:
		// The watch's copy of the node suffices: if it is outdated, the server rejects the change.
		return node, seen, b.gather(ctx, &seen)
	}
	if node, err = b.Cluster.Node(ctx, b.Node); err != nil {
		return nil, seen, err
	}
	if seen.Node, err = cluster.View(node); err != nil {
		return node, seen, err
	}
	return node, seen, b.gather(ctx, &seen)
}

func (b *Bridge) gather(ctx context.Context, seen *sequence.Input) error {
	wanted := sequence.Wants(*seen)
	var err error
	if wanted.Plan {
		b.plan(ctx, seen)
	}
	if wanted.Leases {
		if b.leases, err = b.Cluster.Leases(ctx); err != nil {
			return err
		}
		for _, l := range b.leases {
			if b.lasted[l.Name].version != l.ResourceVersion {
				b.lasted[l.Name] = lasting{l.ResourceVersion, seen.Now}
			}
		}
		seen.Leases = cluster.ViewLeases(b.leases)
		b.tidy = slices.ContainsFunc(seen.Leases.All, func(l sequence.Lease) bool { return strings.HasPrefix(l.Holder, b.Node+"/") })
		if err := b.stale(ctx, seen); err != nil {
			return err
		}
	}
	if sequence.Wants(*seen).Pods {
		seen.Pods, err = b.pods(ctx)
	}
	// Without DRA, its objects are not read.
	if op := seen.Node.Op; err == nil && seen.Pods != nil && (seen.Pods.Driver || op != nil && op.Sliced) {
		seen.Pods.Slices, err = b.Cluster.Slices(ctx, b.Node)
	}
	return err
}

// plan gets the plan of dcm. If dcm cannot plan now, that says nothing about the profile:
// the daemon may be starting.
func (b *Bridge) plan(ctx context.Context, seen *sequence.Input) {
	target, ok := seen.Planned()
	if !ok {
		return
	}
	plan, err := b.Host.PlanFor(ctx, seen.Config.Text, target.Profile)
	refused := (*agent.Refusal)(nil)
	switch {
	case err == nil:
		seen.Plan = &sequence.Plan{Changes: len(plan.Steps) > 0, Reload: plan.Reload}
	case errors.As(err, &refused) && refused.Name != agent.Failed:
		seen.Plan = &sequence.Plan{Refusal: outcome(err)}
	default:
		seen.Host.Down = err.Error()
	}
}

// outcome converts a refusal of dcm to AMD's reasons; nil for another error.
func outcome(err error) *sequence.Outcome {
	refused := (*agent.Refusal)(nil)
	if !errors.As(err, &refused) {
		return nil
	}
	out := &sequence.Outcome{Reason: sequence.PartitionFailure, Message: refused.Error(), Retry: refused.Busy}
	switch refused.Name {
	case agent.InvalidConfiguration, agent.NotAllowed:
		out.Reason = sequence.InvalidProfile
	case agent.NoSuchProfile:
		out.Reason = sequence.NoSuchProfile
	}
	return out
}

// pods returns the node's pods with the pauses of their evictions.
func (b *Bridge) pods(ctx context.Context) (*sequence.Pods, error) {
	all, err := b.Cluster.Pods(ctx, b.Node)
	if err != nil {
		return nil, err
	}
	pods, err := b.Cluster.ViewPods(ctx, all, b.Self)
	if err != nil {
		return nil, err
	}
	for i, p := range pods.Work {
		said := b.pauses[p.UID]
		pods.Work[i].NotBefore, pods.Work[i].Refused = said.until, said.words
	}
	return pods, nil
}

// stale checks one holder if no lease is free, since the lease of a removed node would be
// lost. The lease must have expired. One check at a time suffices, as waiting nodes check
// different holders.
func (b *Bridge) stale(ctx context.Context, seen *sequence.Input) error {
	if seen.Node.Op == nil || seen.Node.Op.Phase != sequence.Waiting || len(b.leases) == 0 {
		return nil
	}
	for _, l := range seen.Leases.All {
		if l.Holder == "" || strings.HasPrefix(l.Holder, b.Node+"/") {
			return nil
		}
	}
	i := mathrand.IntN(len(b.leases))
	if l := b.leases[i]; seen.Now.Sub(b.lasted[l.Name].since) < cluster.Duration(l) {
		return nil // it may still be renewed
	}
	var err error
	seen.Leases.All[i].Stale, err = b.Cluster.Stale(ctx, seen.Leases.All[i].Holder)
	return err
}
