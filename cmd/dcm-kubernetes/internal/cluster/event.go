package cluster

import (
	"context"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	events "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"dcm/cmd/dcm-kubernetes/internal/sequence"
)

// WriteEvent writes an event about a node. It is no error if the event exists.
func (c *Client) WriteEvent(ctx context.Context, node, instance string, now time.Time, e sequence.Event) error {
	kind := core.EventTypeNormal
	if e.Warning {
		kind = core.EventTypeWarning
	}
	event := &events.Event{
		ObjectMeta: meta.ObjectMeta{Namespace: meta.NamespaceDefault, Name: node + "." + e.Key + "." + strings.ToLower(e.Reason)},
		EventTime:  meta.MicroTime{Time: now},
		// kubectl describe finds a node's events by its name as UID, as the kubelet writes
		// it.
		Regarding:           core.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node, UID: types.UID(node)},
		Type:                kind,
		Reason:              e.Reason,
		Action:              "Partition",
		Note:                Clip(e.Note),
		ReportingController: "deviceconfig.org/dcm-kubernetes",
		ReportingInstance:   instance,
	}
	err := c.events.Post().Namespace(meta.NamespaceDefault).Resource("events").Body(event).Do(ctx).Error()
	if errors.IsAlreadyExists(err) {
		return nil
	}
	return wrap(err, "write an event of node %s", node)
}

// Clip cuts a text to the maximum length of an event's note.
func Clip(text string) string {
	const most = 1024
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-3], "") + "..."
}
