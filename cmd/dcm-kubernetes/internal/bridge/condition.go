package bridge

import (
	"context"
	"log/slog"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"dcm/cmd/dcm-kubernetes/internal/cluster"
	"dcm/cmd/dcm-kubernetes/internal/sequence"
)

// conditionWriter writes dcm's condition of the node.
type conditionWriter struct {
	node      string
	cluster   *cluster.Client
	heartbeat time.Duration // about how often an unchanged condition is written again; 0 for never
	log       *slog.Logger

	last written
}

// written is the last condition written to the node's object. A recreated object has none.
type written struct {
	sequence.Condition
	node  types.UID
	until time.Time // until then a new message alone is not written
	beat  time.Time // when the condition is written again, although unchanged; zero for never
}

// next returns the time until the condition is to be written again, although unchanged; false for never.
func (w *conditionWriter) next() (time.Duration, bool) {
	return time.Until(w.last.beat), !w.last.beat.IsZero()
}

// write writes the step's condition if it differs from the node's.
func (w *conditionWriter) write(ctx context.Context, node *core.Node, step sequence.Step) error {
	to := step.Condition
	to.Message = cluster.Clip(to.Message)
	left, beats := w.next()
	beat := beats && left <= 0
	if !beat && w.last.node == node.UID && (w.last.Condition == to ||
		w.last.Status == to.Status && w.last.Reason == to.Reason && time.Now().Before(w.last.until)) {
		return nil
	}
	now := cluster.Condition(node)
	if now != to {
		w.log.Info("condition", "status", to.Status, "reason", to.Reason, "message", to.Message)
	}
	if now != to || beat {
		if err := w.cluster.SetCondition(ctx, w.node, time.Now(), to, now.Status != to.Status); err != nil {
			return err
		}
	}
	w.last = written{to, node.UID, time.Now().Add(step.Slack), time.Time{}}
	if w.heartbeat > 0 {
		w.last.beat = time.Now().Add(jitter(w.heartbeat))
	}
	return nil
}
