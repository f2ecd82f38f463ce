package amdgpu

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

const libraryName = "libamd_smi"

// library reads facts through AMD's library.
type library struct {
	smi      *SMI // nil: the library is not used
	required bool // modes are set through the library, so that it must be installed
}

// enrich adds name, serial, UUID and driver version. It does nothing if an optional library is not
// installed. The error is an [*SMIError].
func (l library) enrich(ctx context.Context, devices []*gpu.Device) error {
	if l.smi == nil {
		return nil
	}
	found, err := l.smi.Inventory(ctx)
	if failed, ok := errors.AsType[*SMIError](err); ok && failed.Absent() && !l.required {
		return nil
	}
	if err != nil {
		return err
	}
	for _, d := range devices {
		at := slices.IndexFunc(found.GPUs, func(g SMIGPU) bool { return g.Address == d.Address })
		if at >= 0 {
			addFacts(d, found.GPUs[at], found.Library.String())
		}
	}
	return nil
}

// addFacts sets the facts that d lacks.
func addFacts(d *gpu.Device, g SMIGPU, source string) {
	sources := maps.Clone(d.Source)
	add := func(fact string, to *string, value string) {
		if *to == "" && value != "" {
			*to, sources[fact] = value, source
		}
	}
	add("name", &d.Name, g.Name)
	add("serial", &d.Serial, g.Serial)
	add("uuid", &d.UUID, g.UUID)
	add("driver_version", &d.DriverVersion, g.DriverVersion)
	d.Source = sources
}

// version returns the name of the library and its version, or why it is not used.
func (l library) version(ctx context.Context) (name, state string) {
	if l.smi == nil {
		return libraryName, `not used ([gpu] backend = "sysfs")`
	}
	found, err := l.smi.Version(ctx)
	failed, ok := errors.AsType[*SMIError](err)
	switch {
	case ok && failed.Absent():
		return libraryName, "none (" + failed.Err.Error() + ")"
	case err != nil:
		return libraryName, "unusable: " + err.Error()
	}
	return libraryName, found.String() + ", " + found.File
}

// errLibraryUnused means that the configuration does not permit the library.
var errLibraryUnused = errors.New(`not used; set [gpu] backend = "auto" to use it`)

// crossCheck is the CrossCheck of [gpu.Vendor]. It reads the modes through the library; dcm
// itself sets and reads modes through sysfs.
func (l library) crossCheck(ctx context.Context, _ []*gpu.Device) gpu.CrossCheck {
	if l.smi == nil {
		return gpu.CrossCheck{Source: libraryName, Err: errLibraryUnused}
	}
	found, err := l.smi.Inventory(ctx)
	if err != nil {
		return gpu.CrossCheck{Source: libraryName, Err: err}
	}
	out := gpu.CrossCheck{Source: found.Library.String()}
	for _, g := range found.GPUs {
		if g.Compute == "" {
			out.Err = errors.Join(out.Err, fmt.Errorf("%s: %s", g.Address, strings.Join(g.Notes, "; ")))
			continue
		}
		mode := partition.Mode{Compute: partition.Compute(g.Compute), Memory: partition.Memory(g.Memory)}
		out.Observations = append(out.Observations, gpu.Observation{GPU: g.Address, Shape: partition.Shape{Mode: mode}, Parts: -1})
	}
	return out
}
