package nvml

import (
	"fmt"
	"slices"

	"dcm/internal/gpu/partition"
	"dcm/internal/sanitize"
)

// Reply is the answer to a request. What was learnt before an error is in it too.
type Reply struct {
	Library string   `json:"library,omitempty"` // the file that was loaded
	Driver  string   `json:"driver,omitempty"`  // "580.82.07"
	NVML    string   `json:"nvml,omitempty"`    // "13.580.82.07"
	Missing []string `json:"missing,omitempty"` // functions that this version of the library does not have
	Calls   int      `json:"calls,omitempty"`   // how often the library was called
	GPUs    []GPU    `json:"gpus,omitempty"`    // those asked for, in that order; after a change the one changed
	Error   *Failure `json:"error,omitempty"`
}

// GPU is what the library tells of one GPU. What it does not tell is zero, and Notes
// has the reason.
type GPU struct {
	Address        partition.Address `json:"address"`
	UUID           string            `json:"uuid,omitempty"`
	Name           string            `json:"name,omitempty"`
	Minor          *int              `json:"minor,omitempty"`     // N of /dev/nvidiaN
	Device         uint32            `json:"device,omitempty"`    // PCI device id and, below it, vendor id
	Subsystem      uint32            `json:"subsystem,omitempty"` // in the same way
	Virtualization string            `json:"virtualization,omitempty"`
	MIG            *MIGMode          `json:"mig,omitempty"`       // nil: this GPU has no MIG
	Resetless      *bool             `json:"resetless,omitempty"` // whether the mode changes without a reset; nil: not told
	Profiles       []Profile         `json:"profiles,omitempty"`
	Instances      []Instance        `json:"instances,omitempty"`
	Devices        []Device          `json:"devices,omitempty"`
	Processes      []Process         `json:"processes,omitempty"`
	Usage          *Usage            `json:"usage,omitempty"`
	Notes          []string          `json:"notes,omitempty"`
	Error          *Failure          `json:"error,omitempty"` // why little or nothing is told of it
}

// The kinds of virtualization.
const (
	Bare        = "none"
	Passthrough = "passthrough"
	VGPUGuest   = "vgpu-guest"
	VGPUHost    = "vgpu-host"
	VSGAHost    = "vsga-host"
)

// MIGMode is whether MIG is on, and whether it will be after a reset.
type MIGMode struct {
	Current bool `json:"current"`
	Pending bool `json:"pending"`
}

// Profile is a GPU instance profile that the GPU offers.
type Profile struct {
	Name     string      `json:"name"` // "3g.40gb"
	Index    int         `json:"index"`
	ID       int         `json:"id"`
	Slices   int         `json:"slices"`
	MemoryMB uint64      `json:"memoryMB"`
	Max      int         `json:"max"`
	Computed bool        `json:"computed,omitempty"` // the name is computed: the driver does not tell it while MIG is off
	Places   []Placement `json:"places,omitempty"`   // none: the driver does not tell
}

// Placement is a run of memory slots.
type Placement struct {
	Start int `json:"start"`
	Size  int `json:"size"`
}

// Instance is a GPU instance that is there.
type Instance struct {
	ID      int               `json:"id"`
	Profile string            `json:"profile"`   // "" where no profile of the GPU has its id
	ProfID  int               `json:"profileID"` // the driver's
	Place   Placement         `json:"place"`
	Compute []ComputeInstance `json:"compute,omitempty"`
}

// ComputeInstance is a compute instance in a GPU instance.
type ComputeInstance struct {
	ID      int       `json:"id"`
	Profile string    `json:"profile"`   // "1c.3g.40gb", "3g.40gb" for one that spans; "" where it could not be told
	ProfID  int       `json:"profileID"` // the driver's
	Slices  int       `json:"slices,omitempty"`
	Place   Placement `json:"place"`
}

// Device is a MIG device: what a process sees of a compute instance.
type Device struct {
	UUID            string `json:"uuid"`
	Name            string `json:"name,omitempty"`
	GPUInstance     int    `json:"gpuInstance"`     // -1: not told
	ComputeInstance int    `json:"computeInstance"` // -1: not told
	Usage           *Usage `json:"usage,omitempty"`
}

// Usage is how much of a device is in use.
type Usage struct {
	MemoryUsed  uint64 `json:"memoryUsed"`            // bytes
	MemoryTotal uint64 `json:"memoryTotal"`           // bytes
	Utilization *int   `json:"utilization,omitempty"` // percent; nil: not told, as for MIG devices by most drivers
}

// Process is one that runs on the GPU, as far as the driver tells.
type Process struct {
	PID             int    `json:"pid"`
	Graphics        bool   `json:"graphics,omitempty"`
	Memory          uint64 `json:"memory,omitempty"` // bytes
	GPUInstance     int    `json:"gpuInstance"`      // -1: none
	ComputeInstance int    `json:"computeInstance"`  // -1: none
}

// ParseReply reads an answer, all text of which is escaped.
func ParseReply(out []byte) (Reply, error) {
	var r Reply
	if err := sanitize.JSON(out, &r); err != nil {
		return Reply{}, fmt.Errorf("its answer is not JSON: %w", err)
	}
	return r, nil
}

// Offers returns the profiles as the planner takes them: those with places.
func (g GPU) Offers() []partition.InstanceProfile {
	var out []partition.InstanceProfile
	for _, p := range g.Profiles {
		if len(p.Places) == 0 {
			continue
		}
		s := partition.InstanceProfile{Name: p.Name, ID: p.ID, InstanceCount: p.Max, Size: p.Places[0].Size}
		for _, place := range p.Places {
			s.Starts = append(s.Starts, place.Start)
		}
		slices.Sort(s.Starts)
		out = append(out, s)
	}
	return out
}

// Geometry returns what is there as the planner takes it; nil: MIG is off, or the GPU
// has none. An instance that spans its GPU instance is not named. One without a compute
// instance, which nobody can use, is told by whole being false.
func (g GPU) Geometry() (m *partition.MIG, whole bool) {
	if g.MIG == nil || !g.MIG.Current {
		return nil, true
	}
	m, whole = &partition.MIG{}, true
	for _, i := range g.Instances {
		one := partition.Instance{Profile: i.Profile, Start: i.Place.Start}
		for _, c := range i.Compute {
			one.Compute = append(one.Compute, c.Profile)
		}
		if len(one.Compute) == 1 && one.Compute[0] == i.Profile {
			one.Compute = nil
		}
		whole = whole && len(i.Compute) > 0
		m.Instances = append(m.Instances, one)
	}
	slices.SortStableFunc(m.Instances, func(a, b partition.Instance) int { return a.Start - b.Start })
	return m, whole
}
