package apply

import (
	"slices"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// WithInstances returns the difference, planned again for the users of MIG instances, of which the plan
// interrupts the fewest.
func (d Difference) WithInstances(users runstate.InstanceUsers) (Difference, error) {
	if len(users) == 0 {
		return d, nil
	}
	d.Devices = withInstances(d.Devices, users)
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

// withInstances returns the devices with the users of their MIG instances.
func withInstances(devices []gpu.Device, users runstate.InstanceUsers) []gpu.Device {
	if len(users) == 0 {
		return devices
	}
	devices = slices.Clone(devices)
	for i := range devices {
		d := &devices[i]
		d.InstanceUsers = users[d.Address]
	}
	return devices
}
