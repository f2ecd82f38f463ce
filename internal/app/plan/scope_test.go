package plan

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/apply"
	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

const amd0, amd1, mig partition.Address = "0000:05:00.0", "0000:26:00.0", "0000:46:00.0"

var part = runstate.PartName

// written returns a host with two GPUs in SPX and one with two MIG instances, and what was chosen on them.
func written(t *testing.T, list []config.Reservation) (*host.Host, []gpu.Device) {
	t.Helper()
	h := &host.Host{Root: t.TempDir()}
	m := &partition.MIG{Instances: []partition.Instance{{Profile: "4g.40gb"}, {Profile: "3g.40gb", Start: 4}}}
	devices := []gpu.Device{
		{GPU: partition.GPU{Address: amd0, Compute: partition.SPX}, Parts: []gpu.Part{{}}},
		{GPU: partition.GPU{Address: amd1, Compute: partition.SPX}, Parts: []gpu.Part{{}}},
		{GPU: partition.GPU{Address: mig, Vendor: partition.NVIDIA, MIG: m}, Parts: []gpu.Part{{}, {Index: 1, Start: 4}}},
	}
	p := runstate.Partitions{Version: runstate.Version}
	for _, d := range devices {
		for _, part := range d.Parts {
			p.Parts = append(p.Parts, runstate.Part{Name: runstate.PartName(d.Address, part.Index), GPU: d.Address})
		}
	}
	for name, parts := range map[string]string{"a": part(amd0, 0), "b": part(amd1, 0), "both": part(amd0, 0) + " " + part(amd1, 0), "i0": part(mig, 0), "i1": part(mig, 1), "w": part(mig, 1), "unmet": "", "gone": ""} {
		i := slices.IndexFunc(list, func(r config.Reservation) bool { return r.Name == name })
		if i < 0 {
			continue
		}
		p.Reservations = append(p.Reservations, runstate.Reservation{Name: name, Unit: list[i].Unit, Partitions: strings.Fields(parts), Asks: list[i].Asks()})
	}
	if err := os.MkdirAll(h.Runtime(), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := runstate.PartitionsIn(h.Runtime()).Write(p); err != nil {
		t.Fatal(err)
	}
	return h, devices
}

func TestScope(t *testing.T) {
	var list []config.Reservation
	for _, name := range strings.Fields("a b both i0 i1 w unmet") {
		list = append(list, config.Reservation{Name: name, Unit: name + ".service", Partitions: 1, Whole: name == "w"})
	}
	// The list was written while GPU amd1 of this client was missing, and another one still is.
	list = append(list, config.Reservation{Name: "gone", Unit: "gone.service", Whole: true, GPUs: []partition.Selector{{Address: amd1}, {Address: "0000:65:00.0"}}})
	h, devices := written(t, list)
	all := strings.Fields("a b both i0 i1 w unmet gone free")
	for _, tt := range []struct {
		name     string
		steps    partition.Steps
		affected string // "" for the whole node
		change   func(*config.Config)
	}{
		{"one AMD GPU", partition.Steps{{Kind: partition.SwitchCompute, GPU: amd0}}, "a both unmet free", nil},
		{"the client of a GPU that was missing", partition.Steps{{Kind: partition.SwitchCompute, GPU: amd1}}, "b both unmet gone free", nil},
		{"a new instance", partition.Steps{{Kind: partition.CreateInstances, GPU: mig, MIG: &partition.MIG{}}}, "w unmet free", nil},
		{"MIG turned off", partition.Steps{{Kind: partition.SetMIGMode, GPU: mig}}, "i0 i1 w unmet free", nil},
		{"a reservation that has changed", partition.Steps{{Kind: partition.SwitchCompute, GPU: amd0}}, "a b both unmet free",
			func(c *config.Config) { c.Reservations[1].Partitions = 2 }},
		{"a memory mode", partition.Steps{{Kind: partition.RequestMemory, GPU: amd0, Hive: []partition.Address{amd0}}, {Kind: partition.ReloadDriver}}, "", nil},
		{"clients that require the profile", partition.Steps{{Kind: partition.SwitchCompute, GPU: amd0}}, "a both unmet free", func(c *config.Config) { c.Require = true }},
		{"no new key", partition.Steps{{Kind: partition.SwitchCompute, GPU: amd0}}, "", func(c *config.Config) { c.UnitOfChange = config.Node }},
		{"nothing to do", nil, "", nil},
		{"a memory allocation next to a switch", partition.Steps{{Kind: partition.SwitchCompute, GPU: amd0}, {Kind: partition.SetAllocation, GPU: amd1}}, "a both unmet free", nil},
	} {
		cfg := &config.Config{UnitOfChange: config.GPU, Reservations: slices.Clone(list)}
		if tt.change != nil {
			tt.change(cfg)
		}
		scope := Scope(h, cfg, apply.Difference{Devices: devices, GPUs: gpu.Partitionable(devices), Steps: tt.steps})
		var got []string
		for _, unit := range all {
			if scope != nil && len(scope.Concerning(unit+".service")) > 0 {
				got = append(got, unit)
			}
		}
		if diff := cmp.Diff(strings.Fields(tt.affected), got, cmp.Transformer("text", func(s []string) string { return fmt.Sprint(s) })); diff != "" {
			t.Errorf("%s: affected units (-want +got):\n%s", tt.name, diff)
		}
	}
}

// Without a list of the partitions, the users of a GPU are unknown.
func TestScope_NoList(t *testing.T) {
	d := apply.Difference{Steps: partition.Steps{{Kind: partition.SwitchCompute, GPU: amd0}}}
	if s := Scope(&host.Host{Root: t.TempDir()}, &config.Config{UnitOfChange: config.GPU}, d); s != nil {
		t.Errorf("scope %+v, want the whole node", s)
	}
}

// With unit-of-change = "gpu" a GPU that a holder blocks can be left out of a change.
func TestScope_Without(t *testing.T) {
	var list []config.Reservation
	for _, name := range strings.Fields("a b both i0 i1 w unmet") {
		list = append(list, config.Reservation{Name: name, Unit: name + ".service", Partitions: 1})
	}
	h, devices := written(t, list)
	devices[0].ExclusiveNodes, devices[1].ExclusiveNodes = []string{"/dev/dri/renderD128"}, []string{"/dev/dri/renderD136"}
	d := apply.Difference{Devices: devices, GPUs: gpu.Partitionable(devices), Steps: partition.Steps{
		{Kind: partition.SwitchCompute, GPU: amd0, From: "SPX", To: "CPX"}, {Kind: partition.SwitchCompute, GPU: amd1, From: "SPX", To: "CPX"}}}
	all := []runstate.Holder{{PID: 7, Devices: []string{"/dev/dri/renderD128"}}, {PID: 8, Devices: []string{"/dev/dri/renderD136"}}, {PID: 9, Lessee: "root", Leased: []string{"/dev/dri/renderD128"}}}
	cfg := &config.Config{UnitOfChange: config.GPU, OnFailure: config.Rollback, Reservations: list}
	for _, pid := range []int{0, 2} { // a process, and a lease
		rest, still := Scope(h, cfg, d).Without(all[pid:pid+1], all)
		if rest == nil || !slices.Equal(rest.GPUs, []partition.Address{amd1}) || len(rest.Concerning("a.service")) > 0 || !slices.Equal(rest.Concerning("b.service"), []partition.Address{amd1}) {
			t.Fatalf("scope without pid %d: %+v, want that of %s", all[pid].PID, rest, amd1)
		}
		if len(still) != 1 || still[0].PID != 8 {
			t.Errorf("holders that block the rest: %v, want pid 8", still)
		}
	}
	if rest, _ := Scope(h, cfg, d).Without(all, all); rest != nil {
		t.Errorf("scope without all holders: %+v, want none", rest)
	}
	cfg = &config.Config{UnitOfChange: config.Node, DeclaredClients: make([]config.Client, 1), OnFailure: config.Rollback, Reservations: list}
	if s := Scope(h, cfg, d); s == nil || s.Without != nil {
		t.Errorf("scope with unit-of-change = node: %+v, want one that changes as a whole", s)
	}
}

// A memory allocation is set while the GPUs are in use, whatever the unit of change is.
func TestScope_KeepsUsers(t *testing.T) {
	h := &host.Host{Root: t.TempDir()}
	d := apply.Difference{Steps: partition.Steps{{Kind: partition.SetAllocation, GPU: amd0}, {Kind: partition.SetAllocation, GPU: amd1}}}
	s := Scope(h, &config.Config{UnitOfChange: config.Node}, d)
	if s == nil || !slices.Equal(s.GPUs, []partition.Address{amd0, amd1}) || len(s.Concerning("a.service")) > 0 || !s.Known("a.service") {
		t.Errorf("scope %+v, want both GPUs and no client", s)
	}
}
