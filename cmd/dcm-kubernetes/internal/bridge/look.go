package bridge

import (
	"context"
	"errors"
	"slices"
	"time"

	core "k8s.io/api/core/v1"

	"dcm/cmd/dcm-kubernetes/internal/agent"
	"dcm/cmd/dcm-kubernetes/internal/cluster"
	"dcm/cmd/dcm-kubernetes/internal/sequence"
	"dcm/cmd/dcm-kubernetes/internal/vendor"
)

// look collects the input of the decision. If the copy of the node that the watch keeps shows that
// nothing has to be done, look makes no request to the API server. The node is nil while it is
// unknown.
func (b *Bridge) look(ctx context.Context) (*core.Node, sequence.Input, error) {
	seen := sequence.Input{Now: time.Now(), ID: id(), Times: b.Times, Tidy: b.tidy, Used: b.used}
	seen.Times.Budget = jitter(seen.Times.Budget)
	node := b.latest()
	if node == nil {
		return nil, seen, nil
	}
	var err error
	if seen.Node, err = cluster.View(node); err != nil {
		return node, seen, err
	}
	if !b.view(&seen) {
		return nil, seen, nil
	}
	seen.Check = b.checks(seen.Host.InSync)
	switch op, wanted := seen.Node.Op, sequence.Wants(seen); {
	case op == nil && wanted == (sequence.Wanted{}):
		return node, seen, nil
	case op != nil && op.Phase == sequence.Waiting, wanted == sequence.Wanted{Pods: true}:
		// The watch's copy of the node suffices: if it is outdated, the server rejects the change.
		return node, seen, b.gather(ctx, &seen)
	}
	if node, err = b.Cluster.Node(ctx, b.Node); err != nil {
		return nil, seen, err
	}
	if seen.Node, err = cluster.View(node); err != nil {
		return node, seen, err
	}
	b.view(&seen)
	return node, seen, b.gather(ctx, &seen)
}

// view reads host and configuration for the node's vendor. It reports whether the host is known.
func (b *Bridge) view(seen *sequence.Input) (known bool) {
	seen.Config = b.Config.Read(seen.Node.Vendor)
	seen.Host, known = b.host.now(seen.Node.Vendor)
	return known
}

func (b *Bridge) gather(ctx context.Context, seen *sequence.Input) error {
	wanted := sequence.Wants(*seen)
	var err error
	if wanted.Plan {
		b.plan(ctx, seen)
	}
	if wanted.Leases {
		if seen.Leases, err = b.budget.read(ctx, seen.Node, seen.Now); err != nil {
			return err
		}
		b.tidy = slices.ContainsFunc(seen.Leases.All, b.budget.own)
	}
	if sequence.Wants(*seen).Pods {
		seen.Pods, err = b.pods(ctx, seen.Node.Vendor)
	}
	// Without DRA, its objects are not read.
	if op := seen.Node.Op; err == nil && seen.Pods != nil && (seen.Pods.Driver || op != nil && op.Sliced) {
		err = b.published(ctx, seen)
	}
	if err == nil && seen.Pods != nil {
		b.rival, b.checked = seen.Pods.Rival, time.Now()
	}
	if err == nil && sequence.Wants(*seen).Taints {
		err = b.taints(ctx, seen)
	}
	return err
}

// checks reports whether a node at rest looks again for another program that partitions its GPUs.
func (b *Bridge) checks(inSync bool) bool {
	interval := b.Times.Reread
	if inSync {
		interval = b.Times.Heartbeat
	}
	return b.checked.IsZero() || interval > 0 && time.Since(b.checked) >= interval
}

// published reads the devices of the DRA driver.
func (b *Bridge) published(ctx context.Context, seen *sequence.Input) error {
	devices, err := b.Cluster.Slices(ctx, seen.Node.Vendor, b.Node)
	seen.Pods.Slices, seen.Pods.Devices = devices.Counts, devices.Devices
	if seen.Pods.Rival == "" {
		seen.Pods.Rival = devices.Rival
	}
	return err
}

// taints reads the taints of devices. A node without a DRA driver has none, unless they remain from an
// earlier operation.
func (b *Bridge) taints(ctx context.Context, seen *sequence.Input) (err error) {
	seen.Taints = &sequence.DeviceTaints{}
	if seen.Node.Op == nil || seen.Pods == nil || seen.Pods.Driver || seen.Node.Op.Sliced {
		seen.Taints, err = b.Cluster.DeviceTaints(ctx, b.Node)
	}
	if err == nil && seen.Node.Op == nil {
		b.tidy = b.tidy || len(seen.Taints.Devices) > 0
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
	plan, err := b.Host.PlanFor(ctx, seen.Config.For(target.Profile), target.Profile)
	refused := (*agent.Refusal)(nil)
	switch {
	case err == nil:
		seen.Plan = &sequence.Plan{Changes: len(plan.Steps) > 0, Reload: plan.Reload, GPUs: b.host.names(seen.Node.Vendor, plan.GPUs)}
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
func (b *Bridge) pods(ctx context.Context, v *vendor.Vendor) (*sequence.Pods, error) {
	all, err := b.Cluster.Pods(ctx, b.Node)
	if err != nil {
		return nil, err
	}
	pods, err := cluster.ViewPods(ctx, b.Cluster, v, all, b.Self)
	if err != nil {
		return nil, err
	}
	for i, p := range pods.Work {
		said := b.pauses[p.UID]
		pods.Work[i].NotBefore, pods.Work[i].Refused = said.until, said.words
	}
	return pods, nil
}
