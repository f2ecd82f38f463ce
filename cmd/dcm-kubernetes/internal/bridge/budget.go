package bridge

import (
	"context"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	coordination "k8s.io/api/coordination/v1"

	"dcm/cmd/dcm-kubernetes/internal/cluster"
	"dcm/cmd/dcm-kubernetes/internal/sequence"
)

// budget is this node's view of the leases that limit how many nodes change concurrently.
type budget struct {
	node     string
	cluster  *cluster.Client
	duration time.Duration // after which a lease expires without renewal
	log      *slog.Logger

	leases    []coordination.Lease // as of the last read
	unchanged map[string]unchanged // by the lease's name
	renewing  renewal
	work      sync.WaitGroup
}

// unchanged has an object's version and the time since which the object has it. The agent uses its
// own clock to decide whether a lease has expired, since the clock of the holder may differ.
type unchanged struct {
	version string
	since   time.Time
}

// renewal is the lease that is being renewed; the zero value for none.
type renewal struct {
	holder string
	end    context.CancelFunc
}

// read reads the leases. If the node's operation waits for one, it also checks whether a lease is stale.
func (b *budget) read(ctx context.Context, node sequence.Node, now time.Time) (*sequence.Leases, error) {
	var err error
	if b.leases, err = b.cluster.Leases(ctx); err != nil {
		return nil, err
	}
	for _, l := range b.leases {
		if b.unchanged[l.Name].version != l.ResourceVersion {
			b.unchanged[l.Name] = unchanged{l.ResourceVersion, now}
		}
	}
	seen := cluster.ViewLeases(b.leases)
	if node.Op == nil || node.Op.Phase != sequence.Waiting {
		return seen, nil
	}
	return seen, b.checkStale(ctx, seen, node.Pool, now)
}

// checkStale checks one holder if no lease of the pool is free, since the lease of a removed node would be
// lost. The lease must have expired. One check at a time suffices, as waiting nodes check
// different holders.
func (b *budget) checkStale(ctx context.Context, seen *sequence.Leases, pool string, now time.Time) error {
	if seen.Open(pool, b.node) != nil {
		return nil
	}
	var held []int // indexes
	for i, l := range seen.All {
		switch {
		case b.own(l):
			return nil
		case l.Pool == pool && l.Holder != "":
			held = append(held, i)
		}
	}
	if len(held) == 0 {
		return nil
	}
	i := held[mathrand.IntN(len(held))]
	if l := b.leases[i]; now.Sub(b.unchanged[l.Name].since) < cluster.Duration(l) {
		return nil // it may still be renewed
	}
	var err error
	seen.All[i].Stale, err = b.cluster.Stale(ctx, seen.All[i].Holder)
	return err
}

// own reports whether this node holds a lease.
func (b *budget) own(l sequence.Lease) bool { return strings.HasPrefix(l.Holder, b.node+"/") }

// hold sets the holder of a lease of the last read, "" for none.
func (b *budget) hold(ctx context.Context, name, holder string) error {
	i := slices.IndexFunc(b.leases, func(l coordination.Lease) bool { return l.Name == name })
	if i < 0 {
		return fmt.Errorf("lease %s: not found", name)
	}
	b.log.Info("lease", "name", name, "holder", holder)
	return b.cluster.Hold(ctx, b.leases[i], holder, time.Now(), b.duration)
}

// free releases the leases of a finished operation.
func (b *budget) free(ctx context.Context, names []string) error {
	for _, name := range names {
		if err := b.hold(ctx, name, ""); err != nil {
			return err
		}
	}
	return nil
}

// renew keeps the lease of an operation that is past waiting from expiring, while the agent
// waits for dcm.
func (b *budget) renew(ctx context.Context, op *sequence.Operation) {
	var holder string
	if op != nil && op.Phase != sequence.Waiting {
		holder = sequence.Holder(b.node, op.ID)
	}
	if holder == b.renewing.holder {
		return
	}
	if b.renewing.end != nil {
		b.renewing.end()
	}
	b.renewing = renewal{holder: holder}
	if holder == "" {
		return
	}
	ctx, b.renewing.end = context.WithCancel(ctx)
	b.work.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(b.duration / 3):
			}
			if err := b.cluster.Renew(ctx, holder, time.Now(), b.duration); err != nil && ctx.Err() == nil {
				b.log.Debug("lease not renewed", "holder", holder, "error", err)
			}
		}
	})
}
