package leaseservice

import (
	"context"
	"fmt"

	"dcm/internal/engine/apply"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
)

// Active lists the leases.
type Active struct {
	Nodes   []string          // the device nodes in the leases
	Holders []runstate.Holder // the processes in the leases
	Changed <-chan struct{}   // closed when a lease may have ended since
}

// ActiveLeases returns the leases. It watches for their ends from before it reads them.
func (p *Partitions) ActiveLeases(ctx context.Context) (t Active, err error) {
	if len(host.LeaseUnits(p.host)) == 0 {
		return t, nil // the usual case, without a call to PID 1
	}
	t.Changed = p.Changed(ctx)
	t.Nodes, err = p.LeasedNodes(ctx)
	t.Holders = apply.Holders(host.LeaseHolders(p.host))
	return t, err
}

// LeasedNodes returns the device nodes in the leases.
func (p *Partitions) LeasedNodes(ctx context.Context) ([]string, error) {
	conn, err := p.host.Dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot read the devices of leases: %w", err)
	}
	defer conn.Close()
	list, err := p.unitDevices(ctx, conn, func() (uint64, error) { return conn.Manager.LoadedAt(ctx) })
	if err != nil {
		return nil, fmt.Errorf("cannot read the devices of leases: %w", err)
	}
	var nodes []string
	for _, t := range list {
		if isLease(t.Unit) {
			nodes = append(nodes, t.Allowed...)
		}
	}
	return nodes, nil
}
