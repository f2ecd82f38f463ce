package amdgpu

import (
	"context"
	"errors"
	"fmt"

	"dcm/internal/gpu/partition"
	"dcm/internal/linux/sysfs"
)

// Files of compute_partition_config. supported_nps_configs shows the memory modes of the
// compute mode that was last written to xcp_config. That write switches nothing
// (amdgpu_xcp.c: amdgpu_xcp_cfg_sysfs_init).
const (
	configDir           = "compute_partition_config"
	supportedXCPConfigs = configDir + "/supported_xcp_configs"
	supportedNPSConfigs = configDir + "/supported_nps_configs"
	xcpConfig           = configDir + "/xcp_config"
)

// modeTables reads the pairs of modes that the devices list, and stores a table of each GPU under
// its address.
type modeTables struct{ facts driverFacts }

// modeTable has the memory modes that each compute mode of a GPU accepts.
type modeTable map[partition.Compute][]partition.Memory

// read stores the memory modes that each compute mode of each GPU accepts, for the
// GPUs without a table of this load of the driver. It writes to xcp_config and restores the
// selection, so that only a run that holds the lock may call it. changed reports whether it
// stored a table.
func (n modeTables) read(ctx context.Context, gpus []partition.GPU) (changed bool, err error) {
	if !n.facts.storable() {
		return false, nil
	}
	var errs []error
	for _, g := range gpus {
		if g.Vendor != partition.AMD || len(g.SupportedCompute) == 0 || g.ReadOnly {
			continue
		}
		if _, ok := storedFact[modeTable](n.facts, string(g.Address)); ok {
			continue
		}
		table, err := sysfs.Within(ctx, func() (modeTable, error) { return n.readTable(g) })
		if err == nil {
			err = storeFact(n.facts, string(g.Address), table)
		}
		changed = changed || err == nil
		if err != nil {
			errs = append(errs, fmt.Errorf("cannot read the memory modes of %s: %w", g.Address, err))
		}
	}
	return changed, errors.Join(errs...)
}

// readTable selects each compute mode in turn, and then the one that was selected.
func (n modeTables) readTable(g partition.GPU) (t modeTable, err error) {
	selected, err := sysfs.Read(n.attribute(g.Address, xcpConfig))
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, sysfs.Write(n.attribute(g.Address, xcpConfig), selected)) }()
	t = make(modeTable)
	for _, c := range g.SupportedCompute {
		if err := sysfs.Write(n.attribute(g.Address, xcpConfig), string(c)); err != nil {
			return t, err
		}
		file := n.attribute(g.Address, supportedNPSConfigs)
		text, err := sysfs.Read(file)
		if err != nil {
			return t, err
		}
		if t[c], err = parseModes(file, text, partition.ParseMemory); err != nil {
			return t, err
		}
	}
	return t, nil
}

// describe sets the compute modes that the device supports with any memory mode, and
// the memory modes of those for which they are known. Kernels without the files set nothing.
func (n modeTables) describe(own sysfs.Dir, g *partition.GPU) error {
	compute, err := readList(own, supportedXCPConfigs, partition.ParseCompute)
	if err != nil || compute == nil {
		return err
	}
	g.SupportedCompute = compute
	if t, ok := storedFact[modeTable](n.facts, string(g.Address)); ok {
		g.MemoryFor = t
		return nil
	}
	selected, memory, err := readSelected(own)
	if err == nil && memory != nil {
		g.MemoryFor = map[partition.Compute][]partition.Memory{selected: memory}
	}
	return err
}

// readSelected returns the current selection and its memory modes; nil if the selection
// changed in between, or if the files are missing.
func readSelected(own sysfs.Dir) (partition.Compute, []partition.Memory, error) {
	before, err := own.Optional(xcpConfig)
	if err != nil || before == "" {
		return "", nil, err
	}
	memory, err := readList(own, supportedNPSConfigs, partition.ParseMemory)
	if err != nil {
		return "", nil, err
	}
	if after, err := own.Optional(xcpConfig); err != nil || after != before {
		return "", nil, err
	}
	c, err := partition.ParseCompute(before)
	if err != nil {
		return "", nil, &ModeError{own.Path(xcpConfig), before}
	}
	return c, memory, nil
}

func (n modeTables) attribute(a partition.Address, name string) string {
	return n.facts.roots.SysPath("bus/pci/devices", string(a), name)
}
