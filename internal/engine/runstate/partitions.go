package runstate

import (
	"dcm/internal/engine/statefile"
	"dcm/internal/gpu/partition"
)

// PartitionsFile is in the runtime directory, written by the oneshots that change what
// is in it: dcm-apply.service and dcm-reserve.service, each with the lock on runs.
const PartitionsFile = "partitions.json"

// Partitions is what there is to give away, and what is reserved of it, since the last
// run. Who else looks at it cannot be fooled by a GPU that is being partitioned: while
// that is so, nothing is given away.
type Partitions struct {
	Version      int               `json:"version"`
	Boot         string            `json:"boot"`
	Modes        map[string]string `json:"modes"` // GPU → its modes when the partitions were listed
	Parts        []Part            `json:"partitions"`
	Reservations []Reservation     `json:"reservations"`
}

// Reserved is the part of [Partitions] that is about reservations.
type Reserved struct {
	Version      int           `json:"version"`
	Reservations []Reservation `json:"reservations"`
}

// Part is a partition, its position in the node, and its device nodes. Placement and leases
// choose among values of this type, so that a choice has all that is known of a partition.
type Part struct {
	Name   string            `json:"name"` // "0000:05:00.0-3"
	GPU    partition.Address `json:"gpu"`
	Index  int               `json:"index"`         // in the GPU
	Domain int               `json:"memory_domain"` // in the GPU: partitions of one share a stack of memory
	NUMA   int               `json:"numa"`          // the GPU's NUMA node; -1 if it is not known
	Hive   uint64            `json:"hive"`          // XGMI hive, or another switch's; 0 for a GPU that is in none
	Kind   string            `json:"kind"`          // vendor, and mode or profile: "amd CPX/NPS4", "nvidia 3g.40gb"; "" in a list of an older dcm
	Render string            `json:"render_node"`   // "/dev/dri/renderD131"
	Card   string            `json:"card"`          // "/dev/dri/card5"; "" if it has none
	Memory uint64            `json:"memory_bytes"`  // 0 if it is not known

	// Beside are the other nodes that a user of the partition has to open; none: /dev/kfd.
	Beside []string `json:"beside,omitempty"`
}

// Reservation is what a unit was given.
type Reservation struct {
	Name       string   `json:"name"`
	Unit       string   `json:"unit"` // "" for one that is no unit's
	Wants      int      `json:"wants"`
	Partitions []string `json:"partitions"` // none, if it could not be met
	Exclusive  bool     `json:"exclusive"`
	Share      int      `json:"share"`  // how many instances of Unit have them together; 0 for one service
	Reason     string   `json:"reason"` // why these, or why none
	Asks       string   `json:"asks"`   // all that the configuration says of it, to see that it has changed
}

// PartitionsIn is the file in the runtime directory.
func PartitionsIn(dir string) statefile.File[Partitions] {
	return file(dir, PartitionsFile, func(p *Partitions) *int { return &p.Version })
}

// ReadReservations is ReadPartitions without the list of partitions, which is long: for
// who asks at each start whether anything is reserved.
func ReadReservations(dir string) (*Reserved, error) {
	return file(dir, PartitionsFile, func(p *Reserved) *int { return &p.Version }).Read()
}

// ReadPartitions returns what the last run has left, nil if there was none in this
// boot.
func ReadPartitions(dir string) (*Partitions, error) { return PartitionsIn(dir).Read() }
