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

// look gathers what the decision takes. Where the watch's copy says that all is well,
// nothing is asked. The node is nil as long as nothing can be said of it.
func (b *Bridge) look(ctx context.Context) (*core.Node, sequence.Seen, error) {
	seen := sequence.Seen{Now: time.Now(), ID: id(), Times: b.Times, Config: b.Config.Read(), Tidy: b.tidy, Used: b.used}
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
		// The copy will do: if it is an old one, what follows from it is refused.
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

func (b *Bridge) gather(ctx context.Context, seen *sequence.Seen) error {
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
	// Who does not use DRA is not asked about it.
	if op := seen.Node.Op; err == nil && seen.Pods != nil && (seen.Pods.Driver || op != nil && op.Sliced) {
		seen.Pods.Slices, err = b.Cluster.Slices(ctx, b.Node)
	}
	return err
}

// plan asks what would change. What dcm cannot tell now is no verdict on the profile:
// its daemon may be about to start.
func (b *Bridge) plan(ctx context.Context, seen *sequence.Seen) {
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

// outcome is what a refusal of dcm's is in AMD's words; nil for another error.
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

// pods are those of the node, with what was said to their evictions.
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

// stale looks at one holder if none is free: a lease of a node that is gone would be
// lost. It was not renewed for its duration by then. One a look is enough, as those that wait look at different ones.
func (b *Bridge) stale(ctx context.Context, seen *sequence.Seen) error {
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
