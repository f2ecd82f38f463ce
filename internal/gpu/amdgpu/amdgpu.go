package amdgpu

import (
	"context"
	"time"

	"dcm/internal/gpu"
	"dcm/internal/gpu/openfiles"
	"dcm/internal/gpu/partition"
)

// Open returns the vendor. It reads nothing.
func Open(r gpu.Roots, opts ...Option) gpu.Vendor { return newParts(r, opts...).vendor() }

// parts has the parts of the vendor, one for each subject.
type parts struct {
	inventory *inventory
	tables    modeTables
	check     busyCheck
	modes     *modeSetter
	module    *module
	usage     *usageReader
	details   *detailReader
	meter     *meter
	library   library
}

func newParts(r gpu.Roots, opts ...Option) *parts {
	s := settings{busy: retry{timeout: 2 * time.Second, interval: 30 * time.Millisecond}, limits: openfiles.DefaultLimits()}
	for _, o := range opts {
		o(&s)
	}
	kernel := r.Module(driver)
	k := kfd{r.SysPath("class/kfd/kfd")}
	facts := driverFacts{r, s.factDir}
	tables, check := modeTables{facts}, busyCheck{facts}
	usage := &usageReader{r, kernel, k, s.limits, check}
	return &parts{
		inventory: &inventory{r, kernel, k, tables},
		tables:    tables,
		check:     check,
		modes:     newModeSetter(r, s, &checkEvidence{usage: usage}),
		module:    &module{kernel, s.modprobe, s.busy},
		usage:     usage,
		details:   &detailReader{r, k},
		meter:     &meter{r, k},
		library:   library{s.smi, s.setThroughSMI},
	}
}

func (p *parts) vendor() gpu.Vendor {
	return gpu.Vendor{
		Traits: gpu.Traits{Vendor: partition.AMD, Driver: driver, KernelLogWords: []string{"amdgpu", "kfd", "amd_xcp"},
			MinorsPerGPU: 8, PartitionPrefix: "amdgpu_xcp"}, // amdgpu_xcp.h: MAX_XCP
		Inspector:     p.inventory,
		Executor:      executor{p.modes, p.module},
		UsageReader:   p.usage,
		Attach:        p.usage.attach,
		Library:       p.library.version,
		Loader:        p.module,
		ReadDetails:   p.details.read,
		Enrich:        p.enrich,
		Measure:       p.meter.measure,
		Counters:      p.meter.counters,
		MemoryUse:     (&memoryReader{p.meter.roots, p.meter.kfd, p.usage.holders}).read,
		Cleaner:       cleaner{p.meter.roots},
		CrossCheck:    p.library.crossCheck,
		ModeFiles:     p.inventory.modeFiles,
		PendingWrites: p.modes.writes.list,

		ReadModeTables: p.tables.read,
		BusyCheck:      p.check.read,
	}
}

// enrich is the Enrich of [gpu.Vendor]: the facts of the library, and of the driver's module what the
// library does not have. The error is that of the library, or that of the module.
func (p *parts) enrich(ctx context.Context, devices []*gpu.Device) error {
	if err := p.library.enrich(ctx, devices); err != nil {
		return err
	}
	return p.inventory.addDriverVersion(devices)
}
