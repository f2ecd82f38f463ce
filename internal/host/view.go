package host

import (
	"dcm/internal/amdgpu"
	"dcm/internal/partition"
)

// View is a device as it is shown, beside what is wanted of it.
type View struct {
	Index      int               `json:"index"` // among the partitionable ones; -1 for the others
	Address    partition.Address `json:"address"`
	Model      string            `json:"model"`
	Mode       partition.Mode    `json:"mode"`
	Partitions int               `json:"partitions"`
	Want       partition.Mode    `json:"want,omitzero"`
	Skipped    bool              `json:"skipped,omitempty"`
	Why        string            `json:"why,omitempty"` // it is not touched
}

// Views are the devices in their order.
func Views(devices []amdgpu.Device, want partition.Layout) []View {
	var out []View
	index := 0
	for _, dev := range devices {
		v := View{
			Index: -1, Address: dev.Address, Model: dev.Model, Mode: dev.Mode(),
			Want: want.Modes[dev.Address], Skipped: want.Skipped[dev.Address], Why: dev.Why,
		}
		if dev.Why == "" {
			v.Index, v.Partitions = index, dev.Partitions()
			index++
		}
		out = append(out, v)
	}
	return out
}
