package leaseservice

import (
	"context"
	"fmt"

	"dcm/internal/engine/apply"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
)

// Active is the leases that there are.
type Active struct {
	Nodes   []string          // the nodes
	Holders []runstate.Holder // the processes in them
	Changed <-chan struct{}   // one may have ended since
}

// ActiveLeases watches for ends from before it reads the leases.
func (p *Host) ActiveLeases(ctx context.Context) (t Active, err error) {
	if len(host.LeaseUnits(p.host)) == 0 {
		return t, nil // mostly, and then nobody is asked
	}
	t.Changed = p.Changed(ctx)
	t.Nodes, err = p.Nodes(ctx)
	t.Holders = apply.Holders(host.LeaseHolders(p.host))
	return t, err
}

// Nodes returns the device nodes that leases hold.
func (p *Host) Nodes(ctx context.Context) ([]string, error) {
	list, err := p.readUnitDevices(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot tell what leases have: %w", err)
	}
	var nodes []string
	for _, t := range list {
		if leased(t.Unit) {
			nodes = append(nodes, t.Allowed...)
		}
	}
	return nodes, nil
}
