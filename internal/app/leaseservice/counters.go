package leaseservice

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"dcm/internal/engine/event"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/status"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// recorder logs the counters of the partitions of a lease or service at [atStart] or [atEnd].
type recorder func(ctx context.Context, l status.Lease, at string)

// counters reads and logs the counters of partitions.
type counters struct {
	host *host.Host
	node *gpu.Node
	log  *slog.Logger
}

// record is a [recorder]. dcm usage computes the mean utilisation and the
// energy from the two entries of a lease. Partitions without counters are omitted, and so is an entry
// without any.
func (c counters) record(ctx context.Context, l status.Lease, at string) {
	ctx, cancel := context.WithTimeout(ctx, HostTimeout)
	defer cancel()
	busy, energy, err := c.read(ctx, l.Partitions, l.Share == 0)
	if err != nil {
		c.log.Warn(fmt.Sprintf("cannot read the counters of %s: %v", l.Lease, err))
		return
	}
	if len(busy)+len(energy) == 0 {
		return
	}
	c.log.Info("counters of the partitions at the "+at+" of "+kindOf(l.Lease), event.LeaseCounted.Attr(), "lease", l.Lease, "at", at, "busy", busy, "energy", energy)
}

// kindOf returns what has the partitions, for a message.
func kindOf(unit string) string {
	if isLease(unit) {
		return "a lease"
	}
	return "a service"
}

// read reads the counters of partitions: busy has "PARTITION SUM CYCLES" for each, and energy
// "GPU MICROJOULES" for each GPU all of whose partitions are among them. alone is false for partitions
// that others can use too, which have no energy of their own.
func (c counters) read(ctx context.Context, names []string, alone bool) (busy, energy []string, err error) {
	listed, err := runstate.ReadPartitions(c.host.Runtime())
	if err != nil || listed == nil {
		return nil, nil, err
	}
	list := countedParts(listed.Parts, names)
	counted, err := c.node.Counters(ctx, list)
	busy, energy = counterTexts(list, counted, alone)
	return busy, energy, err
}

// countedParts returns those of the partitions that have these names.
func countedParts(parts []runstate.Part, names []string) []gpu.CountedPartition {
	of := make(map[partition.Address]int)
	for _, part := range parts {
		of[part.GPU]++
	}
	var out []gpu.CountedPartition
	for _, name := range names {
		for _, part := range parts {
			if part.Name == name {
				out = append(out, gpu.CountedPartition{Vendor: vendorOf(part.Kind), GPU: part.GPU, Index: part.Index, Of: of[part.GPU], Render: part.Render})
			}
		}
	}
	return out
}

// vendorOf returns the vendor of a kind, "amd CPX/NPS4".
func vendorOf(kind string) partition.Vendor {
	name, _, _ := strings.Cut(kind, " ")
	for _, v := range []partition.Vendor{partition.AMD, partition.NVIDIA} {
		if v.Name() == name {
			return v
		}
	}
	return 0
}

func counterTexts(list []gpu.CountedPartition, counted []gpu.PartitionCounters, alone bool) (busy, energy []string) {
	has, of := make(map[partition.Address]int), make(map[partition.Address]int)
	for _, p := range list {
		has[p.GPU]++
		of[p.GPU] = p.Of
	}
	for _, c := range counted {
		if c.Busy.Cycles > 0 {
			busy = append(busy, fmt.Sprintf("%s %d %d", runstate.PartName(c.GPU, c.Index), c.Busy.Sum, c.Busy.Cycles))
		}
		if alone && c.Energy > 0 && has[c.GPU] == of[c.GPU] {
			energy = append(energy, fmt.Sprintf("%s %d", c.GPU, c.Energy))
			has[c.GPU] = 0 // once
		}
	}
	return busy, energy
}
