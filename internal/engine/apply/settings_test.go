package apply

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/testkit/sim"
)

// allocations returns the memory allocations of the simulated GPUs.
func (b *bench) allocations() string {
	var out []string
	for _, g := range b.sim.State().GPUs {
		out = append(out, string(g.Allocation))
	}
	return counted(out)
}

func TestRun_Allocation(t *testing.T) {
	cpx, cpx4 := profile(partition.CPX, partition.NPS1), profile(partition.CPX, partition.NPS4)
	all := cpx
	all.Allocation = partition.All
	only := partition.Profile{Name: "test", Settings: partition.Settings{Allocation: partition.All}}
	einval := func(op sim.Op) []sim.Fault {
		return []sim.Fault{{Op: op, GPU: third, Errno: sim.Errno(syscall.EINVAL), Always: op == sim.OpAllocation}}
	}
	for _, test := range []struct {
		name    string
		profile partition.Profile
		before  partition.Allocation
		faults  []sim.Fault
		held    bool // a process uses all GPUs
		want    runstate.Result
		state   string
		err     string
	}{
		{"set after the switch", all, partition.Capping, nil, false, runstate.Applied, "8 CPX/NPS1; 8 all", ""},
		{"no key keeps the mode found over a switch", cpx, partition.All, nil, false, runstate.Applied, "8 CPX/NPS1; 8 all", ""},
		{"no key keeps the mode found over a reload", cpx4, partition.All, nil, false, runstate.Applied, "8 CPX/NPS4; 8 all", ""},
		{"no key, and nothing else to do", profile(partition.SPX, partition.NPS1), partition.All, nil, false, runstate.Unchanged, "8 SPX/NPS1; 8 all", ""},
		{"set while the GPUs are in use", only, partition.Capping, nil, true, runstate.Applied, "8 SPX/NPS1; 8 all", ""},
		{"undone after a refused switch", cpx, partition.All, einval(sim.OpCompute), false, runstate.RolledBack, "8 SPX/NPS1; 8 all", string(third)},
		{"undone after a refused allocation", all, partition.Capping, einval(sim.OpAllocation), false, runstate.RolledBack, "8 SPX/NPS1; 8 capping", "the driver does not know this memory allocation"},
		{"a write without effect", only, partition.Capping, []sim.Fault{{Op: sim.OpAllocation, GPU: third, Wrong: true, Always: true}}, false, runstate.RolledBack, "8 SPX/NPS1; 8 capping", "compute_partition_mem_alloc_mode reads CAPPING"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBenchWith(t, "mi300x-8", sim.Options{Allocation: true})
			for _, g := range b.sim.State().GPUs {
				if err := b.sim.SetAllocation(t.Context(), g.Address, string(test.before)); err != nil {
					t.Fatal(err)
				}
			}
			for _, f := range test.faults {
				if err := b.sim.Inject(f); err != nil {
					t.Fatal(err)
				}
			}
			if test.held {
				kfd, err := os.Open(filepath.Join(b.sim.Dev, "kfd"))
				if err != nil {
					t.Fatal(err)
				}
				defer kfd.Close()
			}
			run := b.run(test.profile)
			text := ""
			if run.Error != nil {
				text = run.Error.Text
			}
			if got := b.modes() + "; " + b.allocations(); run.Result != test.want || got != test.state || (text != "") != (test.err != "") || !strings.Contains(text, test.err) {
				t.Errorf("%s, %s, error %q; want %s, %s, %q", run.Result, got, text, test.want, test.state, test.err)
			}
			for _, g := range run.GPUs {
				if want := g.Want.Allocation; test.err == "" && (g.Now.Allocation != want || g.Before.Allocation != test.before) {
					t.Errorf("report of %s: before %s, now %s, want %s", g.Address, g.Before.Allocation, g.Now.Allocation, want)
				}
			}
		})
	}
}

func TestRun_AllocationOfOlderDriver(t *testing.T) {
	p := profile(partition.CPX, partition.NPS1)
	p.Allocation = partition.All
	b := newBench(t, "mi300x-8")
	run := b.run(p)
	if run.Result != runstate.Refused || !strings.Contains(run.Error.Text, "Linux 7.1") || b.modes() != "8 SPX/NPS1" {
		t.Errorf("%s: %+v, %s", run.Result, run.Error, b.modes())
	}
}

// isolations returns the isolation of the simulated GPUs.
func (b *bench) isolations() string {
	var out []string
	for _, g := range b.sim.State().GPUs {
		i, err := partition.ParseIsolation(g.Isolation)
		if err != nil {
			b.t.Error(err)
		}
		out = append(out, string(i))
	}
	return counted(out)
}

func TestRun_Isolation(t *testing.T) {
	cpx := profile(partition.CPX, partition.NPS1)
	on, off := cpx, profile(partition.SPX, partition.NPS1)
	on.Isolation, off.Isolation = partition.Isolated, partition.NotIsolated
	only := partition.Profile{Name: "test", Settings: partition.Settings{Isolation: partition.Isolated}}
	reloads := profile(partition.CPX, partition.NPS4)
	reloads.Isolation = partition.Isolated
	for _, test := range []struct {
		name    string
		profile partition.Profile
		before  string // of each partition
		faults  []sim.Fault
		held    bool // a process uses all GPUs
		want    runstate.Result
		state   string
		err     string
	}{
		{"set for each partition after the switch", on, "0", nil, false, runstate.Applied, "8 CPX/NPS1; 8 on", ""},
		{"set after a driver load", reloads, "0", nil, false, runstate.Applied, "8 CPX/NPS4; 8 on", ""},
		{"removed", off, "1", nil, false, runstate.Applied, "8 SPX/NPS1; 8 off", ""},
		{"no key keeps it over a switch", cpx, "1", nil, false, runstate.Applied, "8 CPX/NPS1; 8 on", ""},
		{"no key keeps it over a driver load", profile(partition.CPX, partition.NPS4), "1", nil, false, runstate.Applied, "8 CPX/NPS4; 8 on", ""},
		{"no key, and nothing else to do", profile(partition.SPX, partition.NPS1), "2", nil, false, runstate.Unchanged, "8 SPX/NPS1; 8 2", ""},
		{"set while the GPUs are in use", only, "0", nil, true, runstate.Applied, "8 SPX/NPS1; 8 on", ""},
		{"undone after a refused write", on, "0", []sim.Fault{{Op: sim.OpIsolation, GPU: third, Errno: sim.Errno(syscall.EINVAL), Always: true}}, false, runstate.RolledBack, "8 SPX/NPS1; 8 off", "the driver does not accept this isolation"},
		{"undone to another mode", on, "2", []sim.Fault{{Op: sim.OpIsolation, GPU: third, Errno: sim.Errno(syscall.EINVAL)}}, false, runstate.RolledBack, "8 SPX/NPS1; 8 2", "the driver does not accept this isolation"},
		{"a write without effect", only, "0", []sim.Fault{{Op: sim.OpIsolation, GPU: third, Wrong: true, Always: true}}, false, runstate.RolledBack, "8 SPX/NPS1; 8 off", "enforce_isolation reads 0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBenchWith(t, "mi300x-8", sim.Options{Cleaner: true})
			for _, g := range b.sim.State().GPUs {
				if err := b.sim.SetIsolation(t.Context(), g.Address, test.before); err != nil {
					t.Fatal(err)
				}
			}
			for _, f := range test.faults {
				if err := b.sim.Inject(f); err != nil {
					t.Fatal(err)
				}
			}
			if test.held {
				kfd, err := os.Open(filepath.Join(b.sim.Dev, "kfd"))
				if err != nil {
					t.Fatal(err)
				}
				defer kfd.Close()
			}
			run := b.run(test.profile)
			text := ""
			if run.Error != nil {
				text = run.Error.Text
			}
			if got := b.modes() + "; " + b.isolations(); run.Result != test.want || got != test.state || (text != "") != (test.err != "") || !strings.Contains(text, test.err) {
				t.Errorf("%s, %s, error %q; want %s, %s, %q", run.Result, got, text, test.want, test.state, test.err)
			}
		})
	}
}

func TestRun_IsolationOfOlderDriver(t *testing.T) {
	p := profile(partition.CPX, partition.NPS1)
	p.Isolation = partition.Isolated
	b := newBench(t, "mi300x-8")
	run := b.run(p)
	if run.Result != runstate.Refused || !strings.Contains(run.Error.Text, "enforce_isolation") || b.modes() != "8 SPX/NPS1" {
		t.Errorf("%s: %+v, %s", run.Result, run.Error, b.modes())
	}
}
