package bridge

import (
	"context"
	"errors"
	"fmt"
	"time"

	core "k8s.io/api/core/v1"

	"dcm/cmd/dcm-kubernetes/internal/agent"
	"dcm/cmd/dcm-kubernetes/internal/cluster"
	"dcm/cmd/dcm-kubernetes/internal/sequence"
)

// do executes one act and returns how long to pause after it.
func (b *Bridge) do(ctx context.Context, node *core.Node, act sequence.Act) (time.Duration, error) {
	switch act := act.(type) {
	case sequence.Rest:
		return rest, nil
	case sequence.Wait:
		return max(act.For, time.Millisecond), nil
	case sequence.Patch:
		return 0, b.patch(ctx, node, act)
	case sequence.Take:
		return 0, b.budget.hold(ctx, act.Lease, act.Holder)
	case sequence.Free:
		return 0, b.budget.free(ctx, act.Leases)
	case sequence.Evict:
		return 0, b.evict(ctx, act.Pods)
	case sequence.Delete:
		return 0, b.delete(ctx, act.Pods)
	case sequence.TaintDevices:
		return 0, b.taint(ctx, node, act.Devices)
	case sequence.UntaintDevices:
		return 0, b.untaint(ctx, act.Devices)
	case sequence.Use:
		return 0, b.use(ctx, node, act.Target)
	}
	return 0, fmt.Errorf("unknown act %T", act)
}

func (b *Bridge) taint(ctx context.Context, node *core.Node, devices []string) error {
	seen, err := cluster.View(node)
	if err != nil {
		return err
	}
	for _, device := range devices {
		if err := b.Cluster.TaintDevice(ctx, seen.Vendor, b.Node, device); err != nil {
			return err
		}
		b.Log.Info("tainted", "device", device)
	}
	return nil
}

func (b *Bridge) untaint(ctx context.Context, devices []string) error {
	for _, device := range devices {
		if err := b.Cluster.UntaintDevice(ctx, b.Node, device); err != nil {
			return err
		}
		b.Log.Info("untainted", "device", device)
	}
	return nil
}

// patch changes the node, then writes the event.
func (b *Bridge) patch(ctx context.Context, node *core.Node, p sequence.Patch) error {
	body, err := cluster.Render(node, p)
	if err != nil {
		return err
	}
	if err := b.Cluster.PatchNode(ctx, b.Node, body); err != nil {
		return err
	}
	b.used = nil
	if p.Op == nil {
		b.tidy = true
		clear(b.pauses)
	} else {
		b.Log.Info("operation", "id", p.Op.ID, "profile", p.Op.Profile, "phase", p.Op.Phase)
	}
	if p.Event == nil {
		return nil
	}
	return b.Cluster.WriteEvent(ctx, b.Node, b.Node, time.Now(), *p.Event)
}

// evict requests the eviction of each pod. A refused eviction does not delay the others.
func (b *Bridge) evict(ctx context.Context, pods []sequence.Pod) error {
	for _, p := range pods {
		err := b.Cluster.Evict(ctx, p.Namespace, p.Name, p.UID)
		wait, words, blocked := cluster.Blocked(err)
		switch {
		case err == nil:
			// It may take a moment until the pod is seen to terminate.
			wait = b.Times.Look
			b.Log.Info("evicted", "pod", p.Namespace+"/"+p.Name)
		case blocked:
			b.Log.Info("not evicted", "pod", p.Namespace+"/"+p.Name, "why", words)
		case cluster.Gone(err):
			continue
		default:
			return err
		}
		b.pauses[p.UID] = pause{until: time.Now().Add(wait), words: words}
	}
	return nil
}

func (b *Bridge) delete(ctx context.Context, pods []sequence.Pod) error {
	for _, p := range pods {
		err := b.Cluster.Delete(ctx, p.Namespace, p.Name, p.UID)
		if err != nil && !cluster.Gone(err) {
			return err
		}
		b.Log.Info("deleted", "pod", p.Namespace+"/"+p.Name)
	}
	return nil
}

// use applies the target through dcm. If the reply is lost, dcm continues, and the account shows
// the result.
func (b *Bridge) use(ctx context.Context, node *core.Node, target sequence.Target) error {
	seen, err := cluster.View(node)
	if err != nil {
		return err
	}
	if err := b.unchanged(ctx, node); err != nil {
		return err
	}
	config := b.Config.Read(seen.Vendor)
	if config.Hash != target.Hash {
		return nil // the text has changed: read again
	}
	done, err := b.Host.UseFor(ctx, config.For(target.Profile), target.Profile)
	if refused := (*agent.Refusal)(nil); errors.As(err, &refused) && refused.Away() {
		return err
	}
	used := &sequence.Used{Target: target, Failed: outcome(err)}
	if err != nil && used.Failed == nil {
		return err
	}
	used.Undone = undone(err)
	b.Log.Info("used", "profile", target.Profile, "result", done.Result, "failed", used.Failed != nil, "undone", used.Undone)
	b.used = used
	b.host.renew()
	return nil
}

// unchanged returns an error if the node has another operation or profile than when it was read. Two
// agents may run on a node for a moment, and the slower one must not apply a target of the past.
func (b *Bridge) unchanged(ctx context.Context, seen *core.Node) error {
	now, err := b.Cluster.Node(ctx, b.Node)
	if err == nil && !cluster.SameTarget(seen, now) {
		err = cluster.ErrChanged
	}
	return err
}

// undone reports whether the GPUs are unchanged. A refusal before a run has changed nothing.
func undone(err error) bool {
	refused, ok := err.(*agent.Refusal)
	return ok && (refused.Name != agent.Failed || refused.Undone)
}
