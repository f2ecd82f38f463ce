// Package bridge connects a node's object in the cluster with the dcm of its host. In a loop it
// reads the state, has package sequence decide, and executes one act. It keeps no state that must
// survive a restart.
package bridge

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	mathrand "math/rand/v2"
	"strings"
	"sync"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"dcm/cmd/dcm-kubernetes/internal/agent"
	"dcm/cmd/dcm-kubernetes/internal/cluster"
	"dcm/cmd/dcm-kubernetes/internal/feature"
	"dcm/cmd/dcm-kubernetes/internal/sequence"
	"dcm/cmd/dcm-kubernetes/internal/vendor"
)

// Host is the dcm of this host.
type Host interface {
	Follow(context.Context, func(agent.Account)) error
	PlanFor(ctx context.Context, text, profile string) (agent.Plan, error)
	UseFor(ctx context.Context, text, profile string) (agent.Used, error)
}

// Config is the configuration in the cluster.
type Config interface {
	Read(*vendor.Vendor) sequence.Config
	Watch(ctx context.Context, changed func()) error
}

// Bridge is the agent of one node.
type Bridge struct {
	Node     string
	Self     cluster.Self
	Cluster  *cluster.Client
	Host     Host
	Config   Config
	Features feature.File
	Times    sequence.Times
	Log      *slog.Logger
	Ready    func(why string) // receives why the agent is not ready, "" if it is; nil for none

	// Only one goroutine uses the following fields, except host.
	host    hostState
	wake    chan struct{}
	back    chan struct{} // receives when the API server answers again
	latest  func() *core.Node
	tidy    bool
	used    *sequence.Used
	budget  budget
	pauses  map[string]pause // pauses of evictions, by the pod's UID
	written written
	failing int
	work    sync.WaitGroup
}

// written is the last condition written to the node's object. A recreated object has none.
type written struct {
	sequence.Condition
	node  types.UID
	until time.Time // until then a new message alone is not written
	beat  time.Time // when the condition is written again, although unchanged; zero for never
}

// pause is the server's reply to an eviction.
type pause struct {
	until time.Time
	words string
}

// Run runs until ctx ends.
func (b *Bridge) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	b.wake, b.back = make(chan struct{}, 1), make(chan struct{}, 1)
	b.pauses = make(map[string]pause)
	b.budget = budget{node: b.Node, cluster: b.Cluster, duration: b.Times.Lease, log: b.Log, unchanged: make(map[string]unchanged)}
	b.tidy = true
	b.latest = b.Cluster.Watch(ctx, b.Node, b.nudge, func() { signal(b.back) })
	defer b.work.Wait()
	defer b.budget.work.Wait()
	defer cancel()
	b.work.Go(func() { b.follow(ctx) })
	b.work.Go(func() { b.watchConfig(ctx) })
	for {
		pause := b.step(ctx)
		if pause == 0 && ctx.Err() == nil {
			continue
		}
		if beat := time.Until(b.written.beat); !b.written.beat.IsZero() && (pause < 0 || beat < pause) {
			pause = max(beat, time.Millisecond)
		}
		var timer <-chan time.Time
		if pause > 0 {
			timer = time.After(pause)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-b.wake:
		case <-b.back:
			b.failing = 0 // the failures of the outage do not delay further attempts
		case <-timer:
		}
	}
}

// watchConfig polls if it cannot watch: a host has few inotify instances, which may be in
// use.
func (b *Bridge) watchConfig(ctx context.Context) {
	for ctx.Err() == nil {
		if err := b.Config.Watch(ctx, b.nudge); err != nil {
			b.Log.Warn("polling the ConfigMap", "every", b.Times.Reread, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(b.Times.Reread):
			b.nudge()
		}
	}
}

func (b *Bridge) nudge() { signal(b.wake) }

// signal sends to a channel with room for one signal. Several signals before a receive are one.
func signal(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// rest is a pause without a time limit: only a change of the input ends it.
const rest = -1

// step reads, decides and acts. It returns how long to pause; 0 means not at all.
func (b *Bridge) step(ctx context.Context) time.Duration {
	pause, err := b.once(ctx)
	b.ready(err)
	switch {
	case ctx.Err() != nil:
		return rest
	case err == nil:
		b.failing = 0
		return pause
	case cluster.Changed(err):
		b.Log.Debug("conflict with another writer", "error", err)
		return jitter(time.Second)
	}
	// The API server is down or rejects the call: retry slowly, with jitter.
	b.Log.Warn("retrying later", "error", err)
	b.failing = min(b.failing+1, 5)
	return jitter(time.Second << b.failing)
}

// ready reports whether dcm and the API server answer. A conflict with another writer is an answer.
func (b *Bridge) ready(err error) {
	if b.Ready == nil {
		return
	}
	down, known := b.host.answers()
	switch {
	case err != nil && !cluster.Changed(err):
		b.Ready(err.Error())
	case b.latest() == nil:
		b.Ready("the node was not received from the API server yet")
	case !known:
		b.Ready("dcm has not answered yet")
	default:
		b.Ready(down)
	}
}

func (b *Bridge) once(ctx context.Context) (time.Duration, error) {
	node, seen, err := b.look(ctx)
	if unreadable := (*cluster.UnreadableError)(nil); errors.As(err, &unreadable) && node != nil {
		return rest, b.condition(ctx, node, sequence.Step{Condition: sequence.Condition{Status: "False", Reason: "UnknownOperation", Message: unreadable.Error()}})
	}
	if old := (*cluster.VersionError)(nil); errors.As(err, &old) && node != nil {
		return b.Times.Reread, b.condition(ctx, node, sequence.Step{Condition: sequence.Condition{Status: "False", Reason: "UnsupportedVersion", Message: old.Error()}})
	}
	if err != nil || node == nil {
		return rest, err
	}
	b.budget.renew(ctx, seen.Node.Op)
	step := sequence.Next(seen)
	if _, ok := step.Act.(sequence.Patch); ok {
		// Writing the condition first would change the object that the patch is for.
		if pause, err := b.do(ctx, node, step.Act); err != nil {
			return pause, err
		}
		return 0, b.condition(ctx, node, step)
	}
	if err := b.condition(ctx, node, step); err != nil {
		return 0, err
	}
	return b.do(ctx, node, step.Act)
}

// condition writes the step's condition if it differs from the node's.
func (b *Bridge) condition(ctx context.Context, node *core.Node, step sequence.Step) error {
	to := step.Condition
	to.Message = cluster.Clip(to.Message)
	beat := !b.written.beat.IsZero() && !time.Now().Before(b.written.beat)
	if !beat && b.written.node == node.UID && (b.written.Condition == to ||
		b.written.Status == to.Status && b.written.Reason == to.Reason && time.Now().Before(b.written.until)) {
		return nil
	}
	now := cluster.Condition(node)
	if now != to {
		b.Log.Info("condition", "status", to.Status, "reason", to.Reason, "message", to.Message)
	}
	if now != to || beat {
		if err := b.Cluster.SetCondition(ctx, b.Node, time.Now(), to, now.Status != to.Status); err != nil {
			return err
		}
	}
	b.written = written{to, node.UID, time.Now().Add(step.Slack), time.Time{}}
	if b.Times.Heartbeat > 0 {
		b.written.beat = time.Now().Add(jitter(b.Times.Heartbeat))
	}
	return nil
}

// jitter returns a random time around d, so that many nodes do not call concurrently.
func jitter(d time.Duration) time.Duration {
	return d/2 + time.Duration(mathrand.Int64N(int64(d)))
}

// id returns the id of an operation, which is part of object names.
func id() string { return strings.ToLower(rand.Text()[:10]) }
