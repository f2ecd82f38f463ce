package lease

import (
	"fmt"
	"maps"
	"slices"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/placement"
	"dcm/internal/linux/unitname"
)

// Cleaning is the cleaning of partitions between two holders: what the units of [unitname.Clean] do.
type Cleaning struct {
	GPUs    map[partition.Address]bool // the GPUs whose partitions are cleaned after a lease
	Pending map[string]string          // by partition: why it is not free now: its cleaning has not ended, or is required
	Failed  map[string]bool            // the partitions whose cleaning failed; leases take them last
}

// units returns the units that clean the partitions after their lease.
func (c Cleaning) units(parts []runstate.Part) []string {
	var out []string
	for _, p := range parts {
		if c.GPUs[p.GPU] {
			out = append(out, unitname.CleanFor(p.Name))
		}
	}
	return out
}

// choose is [placement.Choose]. It takes as few partitions as possible whose cleaning failed.
func (c Cleaning) choose(node []runstate.Part, taken map[string]bool, w placement.Want) (placement.Choice, error) {
	no := maps.Clone(taken)
	var failed []string
	for _, p := range node {
		if c.Failed[p.Name] && !taken[p.Name] {
			no[p.Name] = true
			failed = append(failed, p.Name)
		}
	}
	choice, err := placement.Choose(node, no, w)
	for ; err != nil && len(failed) > 0; failed = failed[1:] {
		delete(no, failed[0])
		choice, err = placement.Choose(node, no, w)
	}
	return choice, err
}

// notes returns a text for the partitions of a choice whose cleaning failed.
func (c Cleaning) notes(parts []runstate.Part) []string {
	var out []string
	for _, p := range parts {
		if c.Failed[p.Name] {
			out = append(out, fmt.Sprintf("%s was not cleaned after its last user (see dcm status)", p.Name))
		}
	}
	return slices.Clip(out)
}
