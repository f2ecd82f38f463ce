package apply

import (
	"slices"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// WithInstances returns the difference, planned again for what is known of MIG instances: their users, of
// which the plan interrupts the fewest, and the GPUs without room next to them, see [runstate.Run.NoRoom].
func (d Difference) WithInstances(users runstate.InstanceUsers, full map[partition.Address]partition.Shape) (Difference, error) {
	if len(users) == 0 && len(full) == 0 {
		return d, nil
	}
	d.Devices = withInstances(d.Devices, users, full)
	d.GPUs = gpu.Partitionable(d.Devices)
	var err error
	d.Steps, err = partition.Plan(d.Want, d.GPUs)
	return d, err
}

// Users returns the users of MIG instances for which the difference is planned; nil for none.
func (d Difference) Users() runstate.InstanceUsers {
	var out runstate.InstanceUsers
	for _, g := range d.GPUs {
		if len(g.InstanceUsers) == 0 {
			continue
		}
		if out == nil {
			out = make(runstate.InstanceUsers)
		}
		out[g.Address] = g.InstanceUsers
	}
	return out
}

// withInstances returns the devices with what is known of their MIG instances.
func withInstances(devices []gpu.Device, users runstate.InstanceUsers, full map[partition.Address]partition.Shape) []gpu.Device {
	if len(users) == 0 && len(full) == 0 {
		return devices
	}
	devices = slices.Clone(devices)
	for i := range devices {
		d := &devices[i]
		d.InstanceUsers, d.NoRoomFor = users[d.Address], full[d.Address]
	}
	return devices
}
