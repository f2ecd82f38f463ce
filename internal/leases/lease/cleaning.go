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
	Ending  map[string]bool            // those of Pending whose cleaning has begun and not ended
	Failed  map[string]bool            // the partitions whose cleaning failed; leases take them last
}

// ended returns the cleaning after the end of what has begun.
func (c Cleaning) ended() Cleaning {
	c.Pending = maps.Clone(c.Pending)
	maps.DeleteFunc(c.Pending, func(part, _ string) bool { return c.Ending[part] })
	return c
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
	return last(c, node, taken, func(no map[string]bool) (placement.Choice, error) { return placement.Choose(node, no, w) })
}

// assign is [placement.Assign]. It takes as few partitions as possible whose cleaning failed. Those that a reservation has now
// stay.
func (c Cleaning) assign(node []runstate.Part, taken map[string]bool, list []placement.Reservation) (map[string]placement.Choice, error) {
	c.Failed = maps.Clone(c.Failed)
	for _, r := range list {
		for _, name := range r.Now {
			delete(c.Failed, name)
		}
	}
	return last(c, node, taken, func(no map[string]bool) (map[string]placement.Choice, error) { return placement.Assign(node, no, list) })
}

// last chooses with those partitions taken whose cleaning failed, then with one less, until there is a choice.
func last[C any](c Cleaning, node []runstate.Part, taken map[string]bool, choose func(no map[string]bool) (C, error)) (C, error) {
	no := make(map[string]bool)
	maps.Copy(no, taken)
	var failed []string
	for _, p := range node {
		if c.Failed[p.Name] && !taken[p.Name] {
			no[p.Name] = true
			failed = append(failed, p.Name)
		}
	}
	choice, err := choose(no)
	for ; err != nil && len(failed) > 0; failed = failed[1:] {
		delete(no, failed[0])
		choice, err = choose(no)
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
