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
	writer  conditionWriter
	failing int
	rival   string    // another program that partitions the GPUs, as of the last look
	checked time.Time // the time of that look
	denied  bool      // the last request lacked a right, which the condition names
	work    sync.WaitGroup
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
	b.writer = conditionWriter{node: b.Node, cluster: b.Cluster, heartbeat: b.Times.Heartbeat, log: b.Log}
	b.tidy = true
	b.latest = b.Cluster.Watch(ctx, b.Node, b.nudge, func() { signal(b.back) })
	defer b.work.Wait()
	defer b.budget.work.Wait()
	defer cancel()
	b.work.Go(func() { b.follow(ctx) })
	b.work.Go(func() { watchConfig(ctx, b.Config, b.Times.Reread, b.nudge, b.Log) })
	for {
		pause := b.step(ctx)
		if pause == 0 && ctx.Err() == nil {
			continue
		}
		if beat, ok := b.writer.next(); ok && (pause < 0 || beat < pause) {
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

// watchConfig calls changed when the ConfigMap may have changed. It polls if it cannot watch: a host has
// few inotify instances, which may be in use.
func watchConfig(ctx context.Context, config Config, interval time.Duration, changed func(), log *slog.Logger) {
	for ctx.Err() == nil {
		if err := config.Watch(ctx, changed); err != nil {
			log.Warn("polling the ConfigMap", "every", interval, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(interval):
			changed()
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
	if cluster.Denied(err) {
		b.deny(ctx, err)
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
		return rest, b.writer.write(ctx, node, sequence.Step{Condition: sequence.Condition{Status: "False", Reason: "UnknownOperation", Message: unreadable.Error()}})
	}
	if old := (*cluster.VersionError)(nil); errors.As(err, &old) && node != nil {
		return b.Times.Reread, b.writer.write(ctx, node, sequence.Step{Condition: sequence.Condition{Status: "False", Reason: "UnsupportedVersion", Message: old.Error()}})
	}
	if err != nil || node == nil {
		return rest, err
	}
	seen.Rival = b.rival
	b.budget.renew(ctx, seen.Node.Op)
	step := sequence.Next(seen)
	if _, ok := step.Act.(sequence.Patch); ok || b.denied {
		// Writing the condition first would change the object that the patch is for, or hide a missing right.
		pause, err := b.do(ctx, node, step.Act)
		if err != nil {
			return pause, err
		}
		b.denied = false
		return pause, b.writer.write(ctx, node, step)
	}
	if err := b.writer.write(ctx, node, step); err != nil {
		return 0, err
	}
	return b.do(ctx, node, step.Act)
}

// deny reports a missing right in the node's condition, until a request succeeds.
func (b *Bridge) deny(ctx context.Context, why error) {
	node := b.latest()
	if node == nil {
		return
	}
	b.denied = true
	step := sequence.Step{Condition: sequence.Condition{Status: "False", Reason: "Forbidden",
		Message: "the agent lacks a right: " + why.Error() + ". hint: apply the overlay again, or upgrade the release of Helm; see Permissions in the README"}}
	if err := b.writer.write(ctx, node, step); err != nil {
		b.Log.Warn("the missing right is not in the condition", "error", err)
	}
}

// jitter returns a random time around d, so that many nodes do not call concurrently.
func jitter(d time.Duration) time.Duration {
	return d/2 + time.Duration(mathrand.Int64N(int64(d)))
}

// id returns the id of an operation, which is part of object names.
func id() string { return strings.ToLower(rand.Text()[:10]) }
