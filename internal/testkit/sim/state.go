package sim

import (
	"maps"
	"slices"

	"dcm/internal/gpu/partition"
)

// State is the state of a node in JSON.
type State struct {
	Kind       string     `json:"kind"`
	Module     string     `json:"module"` // "live", "coming"; "" when the driver is not loaded
	NVIDIA     string     `json:"nvidia"` // the same for nvidia
	Parameters Parameters `json:"parameters"`
	Loads      int        `json:"loads"` // number of loads since boot, without the first
	Unloads    int        `json:"unloads"`

	// Numbers of writes to the partition files of all GPUs, including failed ones.
	ComputeWrites int `json:"computeWrites"`
	MemoryWrites  int `json:"memoryWrites"`

	UseReads int `json:"useReads"` // number of reads of usage tables

	GPUs    []GPUState    `json:"gpus"`
	Holders []HolderState `json:"holders"`
	Faults  []Fault       `json:"faults"` // faults that have not occurred yet
	Allowed []Allowance   `json:"allowed"`
}

// GPUState is the state of one GPU.
type GPUState struct {
	Address    partition.Address    `json:"address"`
	Compute    partition.Compute    `json:"compute,omitempty"` // "" if no driver is bound
	Memory     partition.Memory     `json:"memory,omitempty"`
	Allocation partition.Allocation `json:"allocation,omitempty"` // "" before Linux 7.1
	Pending    partition.Memory     `json:"pending,omitempty"`    // active after the next load
	Bound      bool                 `json:"bound"`
	Vanished   bool                 `json:"vanished,omitempty"`
	Partitions int                  `json:"partitions"`
	Switches   int                  `json:"switches"`            // number of completed compute switches
	Cleaned    []int                `json:"cleaned,omitempty"`   // how often each partition was cleaned
	Isolation  string               `json:"isolation,omitempty"` // enforce_isolation; "" if the driver has none
	Writes     map[string]int       `json:"writes,omitempty"`    // number of writes, by file
}

// Mode returns the present modes of the GPU.
func (g GPUState) Mode() partition.Mode { return partition.Mode{Compute: g.Compute, Memory: g.Memory} }

// HolderState is a process that has devices open.
type HolderState struct {
	PID     int      `json:"pid"`
	Devices []string `json:"devices"`

	// Attached are the GPUs that the process is attached to through /dev/kfd.
	Attached []partition.Address `json:"attached,omitempty"`
}

func holders(n *Node) []HolderState {
	byPID := make(map[int][]string)
	for h := range n.handles {
		if !slices.Contains(byPID[h.PID], h.Device) {
			byPID[h.PID] = append(byPID[h.PID], h.Device)
		}
	}
	out := []HolderState{}
	for _, pid := range slices.Sorted(maps.Keys(byPID)) {
		slices.Sort(byPID[pid])
		state := HolderState{PID: pid, Devices: byPID[pid]}
		for _, b := range n.boards {
			if slices.Contains(state.Devices, "kfd") && b.bound && b.Chip.AMD() && attached(n, pid, b) {
				state.Attached = append(state.Attached, b.Address)
			}
		}
		out = append(out, state)
	}
	return out
}
