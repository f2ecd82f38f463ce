package apply

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/testkit/sim"
)

// trial is one cell of the fault matrix: a fault at a step of a run to CPX/NPS4 (to CPX/NPS1 if the
// step is a switch), and how the run must end.
type trial struct {
	step, fault string
	inject      sim.Fault
	keep        bool // on-failure = "keep"

	result  runstate.Result
	passing bool   // reported as transient, so that the daemon tries again
	modes   string // of all simulated GPUs after the run
	errText string // part of the error
}

const (
	hour   = sim.Duration(time.Hour)
	spx8   = "8 SPX/NPS1"
	cpx8   = "8 CPX/NPS1"
	cpx4   = "8 CPX/NPS4"
	once   = 1
	thrice = 3
)

func fail(op sim.Op, e syscall.Errno) sim.Fault { return sim.Fault{Op: op, Errno: sim.Errno(e)} }

func always(f sim.Fault) sim.Fault { f.Always = true; return f }

func times(n int, f sim.Fault) sim.Fault { f.Times = n; return f }

func at(a partition.Address, f sim.Fault) sim.Fault { f.GPU = a; return f }

// matrix lists each fault with the one result that the run may report.
func matrix() []trial {
	return []trial{
		{"discover", "short read", sim.Fault{Op: sim.OpRead, Short: true, Times: 1}, false, runstate.Refused, false, spx8, "not a mode dcm knows"},
		{"discover", "EIO once", times(once, fail(sim.OpRead, syscall.EIO)), false, runstate.Applied, false, cpx4, ""},
		{"discover", "permanent EIO", always(at(third, fail(sim.OpRead, syscall.EIO))), false, runstate.Refused, true, spx8, string(third)},
		{"discover", "hang beyond the deadline", always(sim.Fault{Op: sim.OpRead, Hang: hour}), false, runstate.Refused, true, "", "cannot read the GPUs"},

		{"discover", "EPERM of a reset", times(20, fail(sim.OpRead, syscall.EPERM)), false, runstate.Applied, false, cpx4, ""},
		{"discover", "UNKNOWN for a while", times(20, at(third, sim.Fault{Op: sim.OpRead, Unknown: true})), false, runstate.Applied, false, cpx4, ""},
		{"discover", "UNKNOWN permanently", always(at(third, sim.Fault{Op: sim.OpRead, Unknown: true})), false, runstate.Refused, true, spx8, string(third)},
		{"discover", "one GPU hangs beyond the deadline", always(at(third, sim.Fault{Op: sim.OpRead, Hang: hour})), false, runstate.Refused, true, "", "cannot read the GPUs"},

		{"memory request", "EINVAL", always(fail(sim.OpMemory, syscall.EINVAL)), false, runstate.RolledBack, false, spx8, "NPS4"},
		{"memory request", "EOPNOTSUPP", always(fail(sim.OpMemory, syscall.EOPNOTSUPP)), false, runstate.RolledBack, false, spx8, "NPS4"},
		{"memory request", "EIO", always(fail(sim.OpMemory, syscall.EIO)), false, runstate.RolledBack, false, spx8, "NPS4"},
		{"memory request", "EPERM of a reset", always(fail(sim.OpMemory, syscall.EPERM)), false, runstate.RolledBack, true, spx8, "reset"},
		{"memory request", "EBUSY brief", times(thrice, fail(sim.OpMemory, syscall.EBUSY)), false, runstate.Applied, false, cpx4, ""},
		{"memory request", "hang beyond the deadline", times(once, sim.Fault{Op: sim.OpMemory, Hang: hour}), false, runstate.Failed, true, spx8, "a write timed out, and the driver may carry it out later: set NPS4"},
		{"memory request", "claims success without effect", times(once, sim.Fault{Op: sim.OpMemory, Wrong: true}), false, runstate.RolledBack, false, spx8, "did not take effect"},

		{"unload", "EBUSY brief", times(once, fail(sim.OpUnload, syscall.EBUSY)), false, runstate.Applied, false, cpx4, ""},
		{"unload", "EBUSY lasting", always(fail(sim.OpUnload, syscall.EBUSY)), false, runstate.RolledBack, false, spx8, "cannot unload amdgpu"},

		{"load", "EIO once", times(once, fail(sim.OpLoad, syscall.EIO)), false, runstate.Applied, false, cpx4, ""},
		{"load", "EIO three times", times(thrice, fail(sim.OpLoad, syscall.EIO)), false, runstate.RolledBack, false, spx8, "driver is not loaded"},
		{"load", "permanent EIO", always(fail(sim.OpLoad, syscall.EIO)), false, runstate.Failed, false, "", "driver is not loaded"},
		{"load", "a GPU does not come up", at(third, times(once, fail(sim.OpLoad, syscall.EIO))), false, runstate.RolledBack, true, spx8, string(third)},
		{"load", "a GPU comes up late", at(third, times(once, sim.Fault{Op: sim.OpLoad, Hang: sim.Duration(200 * time.Millisecond)})), false, runstate.Applied, false, cpx4, ""},
		{"load", "the firmware refuses the memory mode", at(third, times(once, sim.Fault{Op: sim.OpLoad, Wrong: true})), false, runstate.RolledBack, false, spx8, "did not take effect"},

		{"switch", "EBUSY brief", times(thrice, at(third, fail(sim.OpCompute, syscall.EBUSY))), false, runstate.Applied, false, cpx8, ""},
		{"switch", "EBUSY lasting", always(at(third, fail(sim.OpCompute, syscall.EBUSY))), false, runstate.RolledBack, true, spx8, string(third)},
		{"switch", "EBUSY lasting, keep", always(at(third, fail(sim.OpCompute, syscall.EBUSY))), true, runstate.Failed, true, "2 CPX/NPS1 1 SPX/NPS1 5 CPX/NPS1", string(third)},
		{"switch", "EPERM of a reset", always(at(third, fail(sim.OpCompute, syscall.EPERM))), false, runstate.RolledBack, true, spx8, "reset"},
		{"switch", "EINVAL", always(at(third, fail(sim.OpCompute, syscall.EINVAL))), false, runstate.RolledBack, false, spx8, string(third)},
		{"switch", "EIO after the switch", times(once, at(third, fail(sim.OpCompute, syscall.EIO))), false, runstate.RolledBack, false, spx8, "could not bring compute up"},
		{"switch", "ENODEV", at(third, times(once, sim.Fault{Op: sim.OpCompute, Vanish: true})), false, runstate.Failed, false, "", string(third)},
		{"switch", "hang beyond the deadline", times(once, at(third, sim.Fault{Op: sim.OpCompute, Hang: hour})), false, runstate.Failed, true, spx8, "set CPX of " + string(third)},

		{"read-back", "claims success without effect", times(once, at(third, sim.Fault{Op: sim.OpCompute, Wrong: true})), false, runstate.RolledBack, false, spx8, string(third)},
		{"read-back", "claims success without effect, keep", times(once, at(third, sim.Fault{Op: sim.OpCompute, Wrong: true})), true, runstate.Failed, false, "2 CPX/NPS1 1 SPX/NPS1 5 CPX/NPS1", string(third)},
	}
}

func TestFaultMatrix(t *testing.T) {
	for _, c := range matrix() {
		t.Run(fmt.Sprintf("%s/%s", c.step, c.fault), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "mi300x-8")
			b.opt.Rollback = !c.keep
			// Only a deadline that the fault exceeds is short: on a loaded machine, others would pass too.
			if hangs := strings.Contains(c.fault, "hang"); hangs && c.step == "discover" {
				b.opt.DeviceTimeout = time.Second
			} else if hangs {
				b.opt.StepTimeout = time.Second
			}
			if err := b.sim.Inject(c.inject); err != nil {
				t.Fatal(err)
			}
			target := profile(partition.CPX, partition.NPS4)
			if c.step == "switch" || c.step == "read-back" {
				target.Memory = partition.NPS1
			}
			c.judge(t, b.run(target))
			if c.modes == "" {
				return
			}
			if got := b.hardware(); got != c.modes {
				t.Errorf("the GPUs are %s, want %s", got, c.modes)
			}
		})
	}
}

// judge compares a run with the trial's expected end.
func (c trial) judge(t *testing.T, run runstate.Run) {
	t.Helper()
	var reported runstate.Error
	if run.Error != nil {
		reported = *run.Error
	}
	if run.Result != c.result || reported.Transient != c.passing {
		t.Errorf("result %s, transient %t; want %s, %t; error %q", run.Result, reported.Transient, c.result, c.passing, reported.Text)
	}
	if (reported.Text == "") != (c.errText == "") || !strings.Contains(reported.Text, c.errText) {
		t.Errorf("error %q, want %q in it", reported.Text, c.errText)
	}
	if run.Finished.IsZero() || run.Result == runstate.Running {
		t.Errorf("the report has no end: %+v", run)
	}
}

// hardware returns the modes as the simulated node has them.
func (b *bench) hardware() string {
	var out []string
	for _, g := range b.sim.State().GPUs {
		out = append(out, g.Mode().String())
	}
	return counted(out)
}

// A load with a pending memory mode resets the hive: it takes longer, and meanwhile every read
// and write of a mode is refused.
func TestRun_ResetInLoad(t *testing.T) {
	b := newBenchWith(t, "mi300x-8", sim.Options{ResetLatency: 300 * time.Millisecond})
	ended := make(chan runstate.Run)
	go func() { ended <- b.run(profile(partition.CPX, partition.NPS4)) }()
	refused := 0
	for {
		_, err := b.node.Devices(t.Context())
		gone := errors.Is(err, syscall.ENODEV) || errors.Is(err, fs.ErrNotExist) // with the driver
		if errors.Is(err, syscall.EPERM) {
			refused++
		}
		if err != nil && (!gone && !gpu.IsTransient(err) || errors.Is(err, gpu.ErrAccessDenied)) {
			t.Errorf("during the run: %v", err)
		}
		select {
		case run := <-ended:
			if run.Result != runstate.Applied || b.hardware() != cpx4 {
				t.Errorf("%s, %+v; the GPUs are %s", run.Result, run.Error, b.hardware())
			}
			if refused == 0 {
				t.Error("no read was refused")
			}
			return
		default:
		}
	}
}
