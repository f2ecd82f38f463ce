package gpu

import (
	"testing"

	"dcm/internal/gpu/partition"
)

// A lease is a holder even if it has no node open.
func TestBlockers_Lease(t *testing.T) {
	unit := "dcm-lease-1000-4f1c09aa.scope"
	steps := partition.Steps{{Kind: partition.SwitchCompute, GPU: "0000:05:00.0"}}
	devices := []Device{{GPU: partition.GPU{Address: "0000:05:00.0"}, ExclusiveNodes: []string{"/dev/kfd"}}}
	lease := Holder{PID: 7, Unit: unit, LeaseOwner: "ada"}
	for _, tt := range []struct {
		name string
		have []Holder
		pids []int
	}{
		{"nothing is open", nil, []int{7}},
		{"one of its processes has something open", []Holder{{PID: 8, Unit: unit, Devices: []string{"/dev/dri/renderD130"}}}, []int{8}},
		{"another has something open that does no harm", []Holder{{PID: 9, Unit: "a.service", Devices: []string{"/dev/dri/renderD130"}}}, []int{7}},
	} {
		u := Usage{Holders: tt.have}
		u.addLeases([]Holder{lease})
		blockers := Blockers(steps, devices, u.Holders)
		if len(blockers) != len(tt.pids) || blockers[0].PID != tt.pids[0] || blockers[0].LeaseOwner != "ada" {
			t.Errorf("%s: blockers %+v, want PID %d", tt.name, blockers, tt.pids)
		}
	}
}
