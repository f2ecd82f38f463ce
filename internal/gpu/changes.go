package gpu

import "dcm/internal/gpu/partition"

// Change is what a plan does to one device, with the effect on its partitions.
type Change struct {
	partition.Change
	ChangedParts []Part // change or disappear; all parts if Whole
	KeptParts    []Part // stay, with their UUIDs and device nodes, and may stay in use
}

// Changes returns what the steps do to each device that they concern, in PCI order. devices
// is the state for which they were planned. Other devices are not affected.
func Changes(steps partition.Steps, devices []Device) []Change {
	parts := make(map[partition.Address][]Part)
	for _, d := range devices {
		parts[d.Address] = d.Parts
	}
	var out []Change
	for _, c := range steps.Changes(Partitionable(devices)) {
		one := Change{Change: c}
		for _, p := range parts[c.GPU] {
			if c.KeepsUsers || !c.Whole && c.Keeps(p.Start) {
				one.KeptParts = append(one.KeptParts, p)
			} else {
				one.ChangedParts = append(one.ChangedParts, p)
			}
		}
		out = append(out, one)
	}
	return out
}
