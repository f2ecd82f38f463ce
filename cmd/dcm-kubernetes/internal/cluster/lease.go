package cluster

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dcm/cmd/dcm-kubernetes/internal/sequence"
)

// Budget is the label of the leases that form the budget. Their number limits how many nodes
// change concurrently. The administrator creates them; agents must not. A node with this label uses only
// leases with the same value, one without it only leases with an empty value.
const Budget = "deviceconfig.org/budget"

// Size is the annotation of a lease with the number of leases of its pool. That of the first lease is effective.
// The others may have an older one, since Helm keeps a lease that the chart no longer has.
const Size = "deviceconfig.org/budget-size"

// Leases lists the leases of the budget.
func (c *Client) Leases(ctx context.Context) ([]coordination.Lease, error) {
	list := &coordination.LeaseList{}
	err := c.coordination.Get().Namespace(c.namespace).Resource("leases").Param("labelSelector", Budget).Do(ctx).Into(list)
	return list.Items, wrap(err, "list the leases in %s", c.namespace)
}

// ViewLeases converts leases for package sequence.
func ViewLeases(all []coordination.Lease) *sequence.Leases {
	out := &sequence.Leases{}
	for _, l := range all {
		out.All = append(out.All, sequence.Lease{Name: l.Name, Pool: l.Labels[Budget], Holder: holder(l), Over: over(l, all)})
	}
	return out
}

// over reports whether a lease is beyond the size of its pool. A size that is no number is 0.
func over(l coordination.Lease, all []coordination.Lease) bool {
	pool := slices.DeleteFunc(slices.Clone(all), func(o coordination.Lease) bool { return o.Labels[Budget] != l.Labels[Budget] })
	slices.SortFunc(pool, func(a, b coordination.Lease) int {
		return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	text, limited := pool[0].Annotations[Size]
	size, _ := strconv.Atoi(text)
	return limited && slices.IndexFunc(pool, func(o coordination.Lease) bool { return o.Name == l.Name }) >= size
}

func holder(l coordination.Lease) string {
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// Hold sets the holder of a lease for a duration, or removes it. It fails if the lease has changed
// since it was read.
func (c *Client) Hold(ctx context.Context, seen coordination.Lease, who string, now time.Time, lasts time.Duration) error {
	l := seen.DeepCopy()
	l.Spec.HolderIdentity, l.Spec.AcquireTime = nil, nil
	l.Spec.RenewTime, l.Spec.LeaseDurationSeconds = nil, nil
	if who != "" {
		// The clock of the last holder may be ahead. The policy compares the times only.
		if end := renewed(seen).Add(Duration(seen)); holder(seen) != "" && end.After(now) {
			now = end
		}
		l.Spec.HolderIdentity, l.Spec.AcquireTime = &who, &meta.MicroTime{Time: now}
		renew(l, now, lasts)
	}
	return c.update(ctx, l)
}

// Renew renews the lease of a holder, if it has one.
func (c *Client) Renew(ctx context.Context, who string, now time.Time, lasts time.Duration) error {
	all, err := c.Leases(ctx)
	if err != nil {
		return err
	}
	for _, l := range all {
		if holder(l) == who {
			renew(&l, now, lasts)
			return c.update(ctx, &l)
		}
	}
	return nil
}

func (c *Client) update(ctx context.Context, l *coordination.Lease) error {
	err := c.coordination.Put().Namespace(c.namespace).Resource("leases").Name(l.Name).Body(l).Do(ctx).Error()
	return wrap(err, "update the lease %s", l.Name)
}

func renew(l *coordination.Lease, now time.Time, lasts time.Duration) {
	seconds := int32(math.Ceil(lasts.Seconds()))
	l.Spec.RenewTime, l.Spec.LeaseDurationSeconds = &meta.MicroTime{Time: now}, &seconds
}

func renewed(l coordination.Lease) time.Time {
	if l.Spec.RenewTime == nil {
		return time.Time{}
	}
	return l.Spec.RenewTime.Time
}

// Duration returns the time after which a lease expires without renewal; 0 if it has none.
func Duration(l coordination.Lease) time.Duration {
	if l.Spec.LeaseDurationSeconds == nil {
		return 0
	}
	return time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second
}

// Stale reports whether a holder's operation is over or its node is gone. An expired lease
// is not enough: its holder may have lost the API server during a change.
func (c *Client) Stale(ctx context.Context, holder string) (bool, error) {
	name, id, _ := strings.Cut(holder, "/")
	node, err := c.Node(ctx, name)
	if err != nil {
		return errors.IsNotFound(err), ignoreNotFound(err)
	}
	return ended(node, id), nil
}

// ended reports whether the operation id has ended: the node has another operation or none. It is
// false if the node's annotation is unreadable.
func ended(node *core.Node, id string) bool {
	v, err := View(node)
	return err == nil && (v.Op == nil || v.Op.ID != id)
}

func ignoreNotFound(err error) error {
	if errors.IsNotFound(err) {
		return nil
	}
	return err
}

// Gone reports whether an error means that the object does not exist.
func Gone(err error) bool { return errors.IsNotFound(err) || precondition(err) }

// precondition reports a conflict with another pod of the same name.
func precondition(err error) bool {
	return errors.IsConflict(err) && strings.Contains(err.Error(), "Precondition failed: UID")
}

// ErrChanged reports that the node has changed since it was read.
var ErrChanged = fmt.Errorf("the node has another operation or profile meanwhile")

// Changed reports whether the object has changed since it was read.
func Changed(err error) bool { return errors.IsConflict(err) || err == ErrChanged }

// Denied reports whether the agent lacks the right for a request.
func Denied(err error) bool { return errors.IsForbidden(err) }

// Blocked reports whether an eviction is refused for now, usually by a disruption budget.
// pause is the server's retry delay, words the reason.
func Blocked(err error) (pause time.Duration, words string, ok bool) {
	seconds, suggested := errors.SuggestsClientDelay(err)
	pause = 10 * time.Second
	if suggested && seconds > 0 {
		pause = time.Duration(seconds) * time.Second
	}
	switch {
	case errors.IsTooManyRequests(err) && errors.HasStatusCause(err, policy.DisruptionBudgetCause):
		return pause, "its disruption budget forbids it for now", true
	case errors.IsTooManyRequests(err):
		return pause, "the API server asks for a pause", true
	case errors.IsInternalError(err):
		// With two budgets for one pod, the server never evicts it.
		return pause, fmt.Sprint("the server cannot evict it: ", err), true
	}
	return 0, "", false
}
