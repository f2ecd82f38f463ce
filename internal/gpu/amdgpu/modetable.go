package amdgpu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/atomicfile"
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

// ModeTables sets the directory in which a run stores a table for each GPU. Without it only
// the entry of the current selection is known.
func ModeTables(dir string) Option { return func(s *settings) { s.modeTables = dir } }

// modeTables reads and stores the pairs of modes that the devices list.
type modeTables struct {
	roots gpu.Roots
	dir   string // of the stored tables; "" for none
}

// modeTable is the stored table of one GPU.
type modeTable struct {
	Driver string                                   `json:"driver"` // load of the driver that reported it
	Memory map[partition.Compute][]partition.Memory `json:"memory"`
}

// read stores the memory modes that each compute mode of each GPU accepts, for the
// GPUs without a table of this load of the driver. It writes to xcp_config and restores the
// selection, so that only a run that holds the lock may call it. changed reports whether it
// stored a table.
func (n modeTables) read(ctx context.Context, gpus []partition.GPU) (changed bool, err error) {
	load := n.driverLoad()
	if n.dir == "" || load == "" {
		return false, nil
	}
	var errs []error
	for _, g := range gpus {
		if g.Vendor != partition.AMD || len(g.SupportedCompute) == 0 || g.ReadOnly || n.stored(g.Address) != nil {
			continue
		}
		table, err := sysfs.Within(ctx, func() (modeTable, error) { return n.readTable(g) })
		if err == nil {
			table.Driver = load
			err = n.store(g.Address, table)
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
	t.Memory = make(map[partition.Compute][]partition.Memory)
	for _, c := range g.SupportedCompute {
		if err := sysfs.Write(n.attribute(g.Address, xcpConfig), string(c)); err != nil {
			return t, err
		}
		file := n.attribute(g.Address, supportedNPSConfigs)
		text, err := sysfs.Read(file)
		if err != nil {
			return t, err
		}
		if t.Memory[c], err = parseModes(file, text, partition.ParseMemory); err != nil {
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
	if t := n.stored(g.Address); t != nil {
		g.MemoryFor = t.Memory
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
	return n.roots.SysPath("bus/pci/devices", string(a), name)
}

func (n modeTables) file(a partition.Address) string {
	return filepath.Join(n.dir, string(a)+".json")
}

func (n modeTables) store(a partition.Address, t modeTable) error {
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(n.dir, 0o755); err != nil {
		return err
	}
	return atomicfile.Write(n.file(a), append(text, '\n'), atomicfile.Options{Mode: 0o644})
}

// stored returns the table of the GPU from this load of the driver, nil if there is
// none.
func (n modeTables) stored(a partition.Address) *modeTable {
	if n.dir == "" {
		return nil
	}
	text, err := os.ReadFile(n.file(a))
	if err != nil {
		return nil
	}
	var t modeTable
	if json.Unmarshal(text, &t) != nil || t.Driver == "" || t.Driver != n.driverLoad() {
		return nil
	}
	return &t
}

// driverLoad returns a text that differs between loads of the driver: the number of its
// directory, which sysfs does not use again before a reboot, and the version of its source.
func (n modeTables) driverLoad() string {
	var st unix.Stat_t
	if unix.Stat(n.roots.SysPath("module", driver), &st) != nil {
		return ""
	}
	version, err := sysfs.Optional(n.roots.SysPath("module", driver, "srcversion"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return strings.TrimSpace(fmt.Sprint(st.Ino, " ", version))
}
