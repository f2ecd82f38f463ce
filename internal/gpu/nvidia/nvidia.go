package nvidia

import (
	"dcm/internal/gpu"
	"dcm/internal/gpu/openfiles"
	"dcm/internal/gpu/partition"
)

// Open returns the vendor. It reads nothing.
func Open(r gpu.Roots, opts ...Option) gpu.Vendor { return newParts(r, opts...).vendor() }

// parts has the parts of the vendor, one for each subject.
type parts struct {
	host      host
	client    *client
	inventory *inventory
	usage     *usageReader
}

func newParts(r gpu.Roots, opts ...Option) *parts {
	s := settings{conflictingUnit: func() string { return "" }}
	for _, o := range opts {
		o(&s)
	}
	p := &parts{host: host{r}, client: &s.client}
	p.inventory = &inventory{host: p.host, client: p.client, conflictingUnit: s.conflictingUnit, createNodes: s.createNodes, reuse: s.reuseReply}
	p.usage = &usageReader{p.host, &p.inventory.lastReply, openfiles.DefaultLimits()}
	return p
}

func (p *parts) vendor() gpu.Vendor {
	return gpu.Vendor{
		Traits:          gpu.Traits{Vendor: partition.NVIDIA, Driver: driver, KernelLogWords: []string{"nvidia", "NVRM"}},
		Inspector:       p.inventory,
		Executor:        &executor{p.host, p.client, p.inventory},
		UsageReader:     p.usage,
		Library:         p.inventory.library,
		Measure:         p.client.measure,
		Counters:        p.client.counters,
		MemoryUse:       (&memoryReader{p.host, p.client}).read,
		CrossCheck:      p.inventory.crossCheck,
		PollFingerprint: p.host.migFingerprint,
		Dropins:         dropins,
	}
}
