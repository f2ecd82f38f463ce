package nvml

import (
	"fmt"
	"slices"

	"dcm/internal/gpu/partition"
	"dcm/internal/sanitize"
	"dcm/internal/worker/serve"
)

// Reply is the reply to a request. It includes what was read before an error.
type Reply struct {
	Library string   `json:"library,omitempty"` // path of the loaded library
	Driver  string   `json:"driver,omitempty"`  // "580.82.07"
	NVML    string   `json:"nvml,omitempty"`    // "13.580.82.07"
	Missing []string `json:"missing,omitempty"` // functions that this version of the library lacks
	Calls   int      `json:"calls,omitempty"`   // number of calls of the library
	GPUs    []GPU    `json:"gpus,omitempty"`    // in the order of the request; after a change, the changed GPU
	Error   *Failure `json:"error,omitempty"`

	Refused []serve.Refusal `json:"refused,omitempty"` // for a request with trace
}

// GPU has the library's facts about one GPU. Unknown fields are zero, and Notes has the
// reason.
type GPU struct {
	Address        partition.Address `json:"address"`
	UUID           string            `json:"uuid,omitempty"`
	Name           string            `json:"name,omitempty"`
	Serial         string            `json:"serial,omitempty"`    // of the board; "" if it has none
	Memory         uint64            `json:"memory,omitempty"`    // bytes
	Minor          *int              `json:"minor,omitempty"`     // N of /dev/nvidiaN
	Device         uint32            `json:"device,omitempty"`    // PCI device id << 16 | vendor id
	Subsystem      uint32            `json:"subsystem,omitempty"` // in the same form
	Virtualization string            `json:"virtualization,omitempty"`
	MIG            *MIGMode          `json:"mig,omitempty"`       // nil: the GPU has no MIG
	Resetless      *bool             `json:"resetless,omitempty"` // the mode changes without a reset; nil: unknown
	Profiles       []Profile         `json:"profiles,omitempty"`
	Instances      []Instance        `json:"instances,omitempty"`
	Devices        []Device          `json:"devices,omitempty"`
	Processes      []Process         `json:"processes,omitempty"`
	Usage          *Usage            `json:"usage,omitempty"`
	Notes          []string          `json:"notes,omitempty"`
	Error          *Failure          `json:"error,omitempty"` // why facts are missing
}

// Kinds of virtualization.
const (
	Bare        = "none"
	Passthrough = "passthrough"
	VGPUGuest   = "vgpu-guest"
	VGPUHost    = "vgpu-host"
	VSGAHost    = "vsga-host"
)

// MIGMode is the MIG mode now and after the next reset.
type MIGMode struct {
	Current bool `json:"current"`
	Pending bool `json:"pending"`
}

// Profile is a GPU instance profile of the GPU.
type Profile struct {
	Name     string      `json:"name"` // "3g.40gb"
	Index    int         `json:"index"`
	ID       int         `json:"id"`
	Slices   int         `json:"slices"`
	MemoryMB uint64      `json:"memoryMB"`
	Max      int         `json:"max"`
	Computed bool        `json:"computed,omitempty"` // the name is computed, since the driver reports it only with MIG on
	Places   []Placement `json:"places,omitempty"`   // nil: not reported
}

// Placement is a range of memory slots.
type Placement struct {
	Start int `json:"start"`
	Size  int `json:"size"`
}

// Instance is an existing GPU instance.
type Instance struct {
	ID      int               `json:"id"`
	Profile string            `json:"profile"`   // "" if no profile of the GPU has the id
	ProfID  int               `json:"profileID"` // profile id in the driver
	Place   Placement         `json:"place"`
	Compute []ComputeInstance `json:"compute,omitempty"`
}

// ComputeInstance is an existing compute instance.
type ComputeInstance struct {
	ID      int       `json:"id"`
	Profile string    `json:"profile"`   // "1c.3g.40gb", or "3g.40gb" if it spans; "" if unknown
	ProfID  int       `json:"profileID"` // profile id in the driver
	Slices  int       `json:"slices,omitempty"`
	Place   Placement `json:"place"`
}

// Device is a MIG device, the form in which processes use a compute instance.
type Device struct {
	UUID            string `json:"uuid"`
	Name            string `json:"name,omitempty"`
	GPUInstance     int    `json:"gpuInstance"`     // -1: unknown
	ComputeInstance int    `json:"computeInstance"` // -1: unknown
	Usage           *Usage `json:"usage,omitempty"`
}

// Usage is the use of a device.
type Usage struct {
	MemoryUsed  uint64 `json:"memoryUsed"`            // bytes
	MemoryTotal uint64 `json:"memoryTotal"`           // bytes
	Utilization *int   `json:"utilization,omitempty"` // percent; nil: unknown, as for MIG devices with most drivers
	Energy      uint64 `json:"energy,omitempty"`      // millijoules since the driver was loaded; 0: unknown, as for MIG devices
}

// Process is a process on the GPU, as far as the driver lists it.
type Process struct {
	PID             int    `json:"pid"`
	Graphics        bool   `json:"graphics,omitempty"`
	Memory          uint64 `json:"memory,omitempty"` // bytes
	GPUInstance     int    `json:"gpuInstance"`      // -1: none
	ComputeInstance int    `json:"computeInstance"`  // -1: none
}

// ParseReply parses a reply and escapes all text.
func ParseReply(out []byte) (Reply, error) {
	var r Reply
	if err := sanitize.JSON(out, &r); err != nil {
		return Reply{}, fmt.Errorf("the reply is not JSON: %w", err)
	}
	return r, nil
}

// Offers returns the profiles with placements for the planner.
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

// Geometry returns the geometry for the planner; nil: MIG is off or missing. A compute
// instance that spans its GPU instance is omitted. whole is false if a GPU instance has no
// compute instance and so is unusable.
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
