package plan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/apply"
	"dcm/internal/engine/config"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// eachReservation returns a reservation for each unit of the host of [written].
func eachReservation() []config.Reservation {
	var list []config.Reservation
	for _, name := range strings.Fields("a b both i0 i1 w unmet") {
		list = append(list, config.Reservation{Name: name, Unit: name + ".service", Partitions: 1, Whole: name == "w"})
	}
	return list
}

// i0 and i1 have reserved the instances at slots 0 and 4, which they need not have open. w is a service
// with whole GPUs, which every change of a GPU restarts, so it is never counted.
func TestWithInstances(t *testing.T) {
	list := eachReservation()
	h, devices := written(t, list)
	board, _ := partition.LookupBoard("H100-80GB")
	devices[2].Profiles = board.Profiles
	for i := range devices[2].Parts {
		devices[2].Parts[i].Node = []string{"/dev/nvidia-caps/nvidia-cap4", "/dev/nvidia-caps/nvidia-cap13"}[i]
	}
	steps := partition.Steps{{Kind: partition.DestroyInstances, GPU: mig}}
	holder := func(unit string, nodes ...string) runstate.Holder {
		return runstate.Holder{PID: 7, Command: "python3", Unit: unit, Devices: nodes}
	}
	reserved := map[int][]partition.InstanceUser{0: {{Name: "i0.service"}}, 4: {{Name: "i1.service"}}}
	for _, tt := range []struct {
		name    string
		change  func(*config.Config)
		holders []runstate.Holder
		steps   partition.Steps
		want    map[int][]partition.InstanceUser
	}{
		{"reservations", nil, nil, steps, reserved},
		{"a reservation that has changed", func(c *config.Config) { c.Reservations[3].Partitions = 2 }, nil, steps, map[int][]partition.InstanceUser{4: {{Name: "i1.service"}}}},
		{"every change restarts all clients", func(c *config.Config) { c.UnitOfChange = config.Node }, nil, steps, nil},
		{"a service with its instance open", nil, []runstate.Holder{holder("i0.service", "/dev/nvidia-caps/nvidia-cap4")}, steps, reserved},
		{"a client without partitions of its own", func(c *config.Config) { c.Clients = []string{"dcgm.service"} },
			[]runstate.Holder{holder("dcgm.service", "/dev/nvidia-caps/nvidia-cap4")}, steps, reserved},
		{"a lease and a process of no unit", func(c *config.Config) { c.UnitOfChange = config.Node },
			[]runstate.Holder{{Unit: "dcm-lease-1.scope", Lessee: "root", Leased: []string{"/dev/nvidia-caps/nvidia-cap13"}}, holder("", "/dev/nvidia-caps/nvidia-cap4")}, steps,
			map[int][]partition.InstanceUser{0: {{Name: "python3 (pid 7)", Blocks: true}}, 4: {{Name: "dcm-lease-1.scope", Blocks: true}}}},
		{"a plan for another GPU", nil, nil, partition.Steps{{Kind: partition.SwitchCompute, GPU: amd0}}, nil},
	} {
		cfg := &config.Config{UnitOfChange: config.GPU, Reservations: append([]config.Reservation(nil), list...)}
		if tt.change != nil {
			tt.change(cfg)
		}
		want := partition.Layout{Shapes: map[partition.Address]partition.Shape{mig: {MIG: &partition.MIG{Instances: []partition.Instance{{Profile: "4g.40gb", Start: -1}}}}}}
		d, err := WithInstances(h, cfg, apply.Difference{Devices: devices, GPUs: gpu.Partitionable(devices), Steps: tt.steps, Want: want}, tt.holders)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if diff := cmp.Diff(tt.want, d.Users()[mig]); diff != "" {
			t.Errorf("%s: users (-want +got):\n%s", tt.name, diff)
		}
	}
}

// After a run without room next to the instances that stay, the plan destroys them too.
func TestWithInstances_NoRoom(t *testing.T) {
	h, devices := written(t, eachReservation())
	board, _ := partition.LookupBoard("H100-80GB")
	devices[2].Profiles = board.Profiles
	want := partition.MIG{Instances: []partition.Instance{{Profile: "4g.40gb", Start: -1}, {Profile: "1g.10gb", Start: -1}}}
	layout := partition.Layout{Shapes: map[partition.Address]partition.Shape{mig: {MIG: &want}}}
	for _, test := range []struct {
		noRoom partition.MIG
		want   string
	}{
		{partition.MIG{}, "destroy 3g.40gb@4 of " + string(mig) + ", keep 4g.40gb@0"},
		{want, "destroy 4g.40gb@0, 3g.40gb@4 of " + string(mig)},
	} {
		if err := runstate.RunIn(h.Runtime()).Write(runstate.Run{Version: runstate.Version, Boot: h.BootID(), NoRoom: map[partition.Address]partition.Shape{mig: {MIG: &test.noRoom}}}); err != nil {
			t.Fatal(err)
		}
		d := apply.Difference{Devices: devices, GPUs: gpu.Partitionable(devices), Want: layout}
		d.Steps = partition.Steps{{Kind: partition.CreateInstances, GPU: mig}}
		d, err := WithInstances(h, &config.Config{}, d, nil)
		if err != nil || len(d.Steps) == 0 || d.Steps[0].String() != test.want {
			t.Errorf("no room for %s: steps %v (%v), want %q first", test.noRoom, d.Steps, err, test.want)
		}
	}
}
