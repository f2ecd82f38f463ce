package runstate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"dcm/internal/gpu/partition"
	"dcm/internal/linux/statefile"
	"dcm/internal/linux/unitname"
)

// PartitionsFile is in the runtime directory. dcm-apply.service and dcm-reserve.service write it,
// each while it holds the lock of runs.
const PartitionsFile = "partitions.json"

// Partitions are the partitions of the node and the reservations after the last run. During a run
// they are out of date, and no partition is allocated.
type Partitions struct {
	Version      int               `json:"version"`
	Boot         string            `json:"boot"`
	Modes        map[string]string `json:"modes"` // by GPU, when the partitions were listed
	Parts        []Part            `json:"partitions"`
	Reservations []Reservation     `json:"reservations"`
}

// Reserved is the part of [Partitions] with the reservations.
type Reserved struct {
	Version      int           `json:"version"`
	Reservations []Reservation `json:"reservations"`
}

// Part is a partition, its position in the node, and its device nodes. Placement and leases choose
// among values of this type.
type Part struct {
	Name   string            `json:"name"` // "0000:05:00.0-3"
	GPU    partition.Address `json:"gpu"`
	Index  int               `json:"index"`         // in the GPU
	Domain int               `json:"memory_domain"` // in the GPU; partitions of one domain share a stack of memory
	NUMA   int               `json:"numa"`          // the GPU's NUMA node; -1 if it is not known
	Hive   uint64            `json:"hive"`          // of XGMI or another switch; 0 if the GPU is in none
	Kind   string            `json:"kind"`          // vendor, and mode or profile: "amd CPX/NPS4", "nvidia 3g.40gb"
	Render string            `json:"render_node"`   // "/dev/dri/renderD131"
	Card   string            `json:"card"`          // "/dev/dri/card5"; "" if it has none
	Memory uint64            `json:"memory_bytes"`  // 0 if it is not known

	// UUID is the identifier by which a program selects the partition in the vendor's runtime: "MIG-…".
	// It is empty for AMD.
	UUID string `json:"uuid,omitempty"`

	// Companions are the other device nodes that a user of the partition has to open; empty:
	// /dev/kfd.
	Companions []string `json:"beside,omitempty"`
}

// GPUsOf returns the GPUs of those partitions of a reservation for which is returns true, each once.
func (p *Partitions) GPUsOf(r Reservation, is func(Part) bool) []partition.Address {
	var out []partition.Address
	for _, part := range p.Parts {
		if slices.Contains(r.Partitions, part.Name) && is(part) && !slices.Contains(out, part.GPU) {
			out = append(out, part.GPU)
		}
	}
	return out
}

// PartName returns the name of a GPU's partition with that index.
func PartName(gpu partition.Address, index int) string { return fmt.Sprintf("%s-%d", gpu, index) }

// ParsePartName parses the name of a partition.
func ParsePartName(name string) (gpu partition.Address, index int, err error) {
	at := strings.LastIndexByte(name, '-')
	if at >= 0 {
		gpu, err = partition.ParseAddress(name[:at])
		if index, other := strconv.Atoi(name[at+1:]); err == nil && other == nil && PartName(gpu, index) == name {
			return gpu, index, nil
		}
	}
	return "", 0, fmt.Errorf("not the name of a partition (found %q, want one such as 0000:0c:00.0-1)", name)
}

// Reservation has the partitions that were chosen for a reservation.
type Reservation struct {
	Name       string   `json:"name"`
	Unit       string   `json:"unit"` // "" if it is for no unit
	Wants      int      `json:"wants"`
	Partitions []string `json:"partitions"` // none, if it could not be met
	Exclusive  bool     `json:"exclusive"`
	Share      int      `json:"share"`             // number of instances of Unit that share them; 0: one service
	Reason     string   `json:"reason"`            // of the choice, or why there is none
	Make       string   `json:"make,omitempty"`    // MIG profile of the instance that the start of Unit creates; Wants is 0 then
	Devices    []string `json:"devices,omitempty"` // patterns of other device nodes that Unit may open
	Asks       string   `json:"asks"`              // its settings, to detect a change
}

// PartitionsIn returns PartitionsFile in the runtime directory.
func PartitionsIn(dir string) statefile.File[Partitions] {
	return file(dir, PartitionsFile, func(p *Partitions) *int { return &p.Version })
}

// ReadReservations is ReadPartitions without the list of partitions, which is long. The guard
// calls it at each start.
func ReadReservations(dir string) (*Reserved, error) {
	return file(dir, PartitionsFile, func(p *Reserved) *int { return &p.Version }).Valid()
}

// Of returns the partitions that were chosen for a unit, which may be the instance of a template, and the
// number of instances that share them. It returns none if the start of the unit creates its partition, which a
// claim has then.
func (p *Reserved) Of(unit string) (partitions []string, share int) {
	i := unitname.IndexFor(unit, len(p.Reservations), func(i int) string { return p.Reservations[i].Unit })
	if i < 0 || p.Reservations[i].Make != "" {
		return nil, 0
	}
	return slices.Clone(p.Reservations[i].Partitions), p.Reservations[i].Share
}

// ExclusiveOf returns the partitions of the exclusive reservation of a unit. It returns none if instances of a template share
// them.
func (p *Reserved) ExclusiveOf(unit string) []string {
	i := unitname.IndexFor(unit, len(p.Reservations), func(i int) string { return p.Reservations[i].Unit })
	if i < 0 || p.Reservations[i].Make != "" || !p.Reservations[i].Exclusive || p.Reservations[i].Share > 0 {
		return nil
	}
	return slices.Clone(p.Reservations[i].Partitions)
}

// ReadPartitions returns the partitions after the last run, nil if there was no run in this boot.
func ReadPartitions(dir string) (*Partitions, error) { return PartitionsIn(dir).Valid() }
