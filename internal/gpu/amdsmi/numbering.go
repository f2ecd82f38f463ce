package amdsmi

import (
	"fmt"
	"strings"

	"dcm/internal/gpu/partition"
)

// Symbols whose presence distinguishes the numberings.
const (
	symKFDInfo    = "amdsmi_get_gpu_kfd_info"
	symMemoryMode = "amdsmi_set_gpu_memory_partition_mode"
)

const symSetCompute = "amdsmi_set_gpu_compute_partition"

type (
	computeNumbers map[partition.Compute]uint32
	memoryNumbers  map[partition.Memory]uint32
)

// Numbering has the mode numbers and structure offsets of a range of versions.
type Numbering struct {
	first, last [3]int // library versions, inclusive
	rocm        string // ROCm releases

	kfdInfo    bool // symKFDInfo must exist
	memoryMode bool // symMemoryMode must exist; checked only if memory is known

	compute computeNumbers // nil: unknown
	memory  memoryNumbers  // nil: unknown
	asic    *asicLayout    // nil: unknown
	driver  *driverLayout  // nil: unknown
}

// asicLayout has offsets in amdsmi_asic_info_t. market_name is at 0 in every version.
type asicLayout struct{ vendor, device, serial int }

// driverLayout has offsets in amdsmi_driver_info_t.
type driverLayout struct{ name, version int }

const latest = 1<<31 - 1

// numberings returns the table, from amdsmi.h of each version. Between 24.7.0 and 26.1 only
// the compute numbers are certain: they changed when amdsmi_get_gpu_kfd_info was added.
func numberings() []Numbering {
	oldCompute := computeNumbers{partition.CPX: 1, partition.SPX: 2, partition.DPX: 3, partition.TPX: 4, partition.QPX: 5}
	newCompute := computeNumbers{partition.SPX: 1, partition.DPX: 2, partition.TPX: 3, partition.QPX: 4, partition.CPX: 5}
	oldMemory := memoryNumbers{partition.NPS1: 1, partition.NPS2: 2, partition.NPS4: 3, partition.NPS8: 4}
	newMemory := memoryNumbers{partition.NPS1: 1, partition.NPS2: 2, partition.NPS4: 4, partition.NPS8: 8}
	shortName := &asicLayout{vendor: 64, device: 136, serial: 148}
	longName := &asicLayout{vendor: 256, device: 328, serial: 340}
	allLong := &asicLayout{vendor: 256, device: 520, serial: 532}
	nameFirst := &driverLayout{name: 0, version: 64}
	short := &driverLayout{name: 128, version: 0}
	long := &driverLayout{name: 512, version: 0}
	return []Numbering{
		{first: [3]int{23, 4, 0}, last: [3]int{23, 4, latest}, rocm: "6.0",
			compute: oldCompute, memory: oldMemory, asic: shortName, driver: nameFirst},
		{first: [3]int{24, 5, 0}, last: [3]int{24, 5, 2}, rocm: "6.1",
			compute: oldCompute, memory: oldMemory, asic: shortName, driver: short},
		{first: [3]int{24, 5, 3}, last: [3]int{24, 6, 3}, rocm: "6.2",
			compute: oldCompute, memory: oldMemory, asic: longName, driver: short},
		{first: [3]int{24, 7, 0}, last: [3]int{24, 7, 0}, rocm: "6.3 in development", kfdInfo: true,
			compute: newCompute, asic: longName, driver: short},
		{first: [3]int{24, 7, 1}, last: [3]int{26, 0, latest}, rocm: "6.3 to 7.0", kfdInfo: true,
			compute: newCompute},
		{first: [3]int{26, 1, 0}, last: [3]int{27, 1, latest}, rocm: "7.1 to 10.1", kfdInfo: true, memoryMode: true,
			compute: newCompute, memory: newMemory, asic: allLong, driver: long},
	}
}

// numberingOf returns the row for a version. has reports whether the library has a symbol.
func numberingOf(v Version, has func(symbol string) bool) (Numbering, error) {
	for _, n := range numberings() {
		if v.compare(n.first) < 0 || v.compare(n.last) > 0 {
			continue
		}
		if err := n.agree(v, has); err != nil {
			return Numbering{}, err
		}
		return n, nil
	}
	return Numbering{}, fmt.Errorf("the mode numbers of libamd_smi %s are not known: known are %s", v, knownVersions())
}

// agree returns an error if the symbols contradict the reported version.
func (n Numbering) agree(v Version, has func(string) bool) error {
	if err := agree(v, symKFDInfo, n.kfdInfo, has(symKFDInfo)); err != nil {
		return err
	}
	if n.memory == nil {
		return nil
	}
	return agree(v, symMemoryMode, n.memoryMode, has(symMemoryMode))
}

func agree(v Version, symbol string, want, got bool) error {
	if want == got {
		return nil
	}
	word := map[bool]string{true: "has", false: "does not have"}
	return fmt.Errorf("unknown mode numbers of libamd_smi: version %s %s %s, but this library %s",
		v, word[want], symbol, word[got])
}

func (n Numbering) computeNumber(v Version, mode partition.Compute) (uint32, error) {
	if n.compute == nil {
		return 0, fmt.Errorf("the compute mode numbers of libamd_smi %s are not known", v)
	}
	number, ok := n.compute[mode]
	if !ok {
		return 0, fmt.Errorf("libamd_smi %s has no number for compute mode %q", v, mode)
	}
	return number, nil
}

func (n Numbering) memoryNumber(v Version, mode partition.Memory) (uint32, error) {
	if n.memory == nil {
		return 0, fmt.Errorf("the memory mode numbers of libamd_smi %s (ROCm %s) are not known: known are those of %s",
			v, n.rocm, knownMemoryVersions())
	}
	number, ok := n.memory[mode]
	if !ok {
		return 0, fmt.Errorf("libamd_smi %s has no number for memory mode %q", v, mode)
	}
	return number, nil
}

func knownVersions() string {
	return versionsWhere(func(Numbering) bool { return true })
}

func knownMemoryVersions() string {
	return versionsWhere(func(n Numbering) bool { return n.memory != nil })
}

func versionsWhere(keep func(Numbering) bool) string {
	var out []string
	for _, n := range numberings() {
		if keep(n) {
			out = append(out, n.span())
		}
	}
	return strings.Join(out, ", ")
}

func (n Numbering) span() string {
	first, last := text(n.first), text(n.last)
	if n.first == n.last || n.first == [3]int{n.last[0], n.last[1], 0} && n.last[2] == latest {
		return last
	}
	return first + " to " + last
}

func text(number [3]int) string {
	if number[2] == latest {
		return fmt.Sprintf("%d.%d.x", number[0], number[1])
	}
	return fmt.Sprintf("%d.%d.%d", number[0], number[1], number[2])
}
