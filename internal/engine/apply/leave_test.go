package apply

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
)

// holdRender starts a process that has a partition of the GPU open.
func (b *bench) holdRender(t *testing.T, of partition.Address) (pid int) {
	t.Helper()
	devices, err := b.node.Devices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range devices {
		if d.Address == of {
			f, err := os.Open(filepath.Join(b.sim.Dev, "dri", filepath.Base(d.RenderNodes[0])))
			if err != nil {
				t.Fatal(err)
			}
			return holdOpen(t, f)
		}
	}
	t.Fatalf("no GPU %s", of)
	return 0
}

// A round of a change leaves the GPUs of later rounds as they are, held ones too. The last round completes
// the change.
func TestRun_Rounds(t *testing.T) {
	b := newBench(t, "mi300x-8")
	b.opt.EachGPU = true
	b.holdRender(t, third)
	done := []partition.Address{first}
	b.opt.May = func(a partition.Address) bool { return slices.Contains(done, a) }
	b.opt.Later = func(a partition.Address) bool { return !slices.Contains(done, a) }
	for _, modes := range []string{"1 CPX/NPS1 7 SPX/NPS1", "1 CPX/NPS1 7 SPX/NPS1"} { // a second run for the same round changes nothing
		run := b.run(profile(partition.CPX, partition.NPS1))
		if run.Result != runstate.Round || run.Error != nil || len(run.Holders) != 0 || b.modes() != modes {
			t.Errorf("result %s, error %+v, holders %v, modes %s; want a round with %s", run.Result, run.Error, run.Holders, b.modes(), modes)
		}
	}
	b.opt.Later = nil
	b.opt.May = func(a partition.Address) bool { return a != third }
	if run := b.run(profile(partition.CPX, partition.NPS1)); run.Result != runstate.Partial || b.modes() != "2 CPX/NPS1 1 SPX/NPS1 5 CPX/NPS1" {
		t.Errorf("the last round: result %s, modes %s, want all but the held GPU in CPX", run.Result, b.modes())
	}
}

// A holder blocks the change of its GPU. If each GPU succeeds by itself, the others change.
func TestRun_HeldGPU(t *testing.T) {
	only := func(gpus ...partition.Address) func(partition.Address) bool {
		return func(a partition.Address) bool { return slices.Contains(gpus, a) }
	}
	for _, tt := range []struct {
		name    string
		options func(*Options)
		memory  partition.Memory
		held    bool
		want    runstate.Result
		modes   string
		err     string
	}{
		{"each GPU by itself", func(o *Options) { o.EachGPU = true }, partition.NPS1, true, runstate.Partial, "2 CPX/NPS1 1 SPX/NPS1 5 CPX/NPS1", "sleep"},
		{"all GPUs together", func(*Options) {}, partition.NPS1, true, runstate.Refused, "8 SPX/NPS1", "sleep"},
		{"a reload", func(o *Options) { o.EachGPU = true }, partition.NPS4, true, runstate.Refused, "8 SPX/NPS1", "sleep"},
		{"the held GPU alone", func(o *Options) { o.EachGPU, o.May = true, only(third) }, partition.NPS1, true, runstate.Refused, "8 SPX/NPS1", "sleep"},
		{"a holder that has ended since the request", func(o *Options) { o.EachGPU, o.May = true, only(first) }, partition.NPS1, false, runstate.Partial, "1 CPX/NPS1 7 SPX/NPS1", "not requested"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, "mi300x-8")
			tt.options(&b.opt)
			pid := 0
			if tt.held {
				pid = b.holdRender(t, third)
			}
			run := b.run(profile(partition.CPX, tt.memory))
			if run.Result != tt.want || run.Error == nil || !run.Error.Transient || !strings.Contains(run.Error.Text, tt.err) {
				t.Errorf("result %s, error %+v; want %s, and a transient error with %q", run.Result, run.Error, tt.want, tt.err)
			}
			if got := b.modes(); got != tt.modes {
				t.Errorf("modes are %s, want %s", got, tt.modes)
			}
			if tt.held && (len(run.Holders) != 1 || run.Holders[0].PID != pid) {
				t.Errorf("holders %v, want pid %d", run.Holders, pid)
			}
			for _, g := range run.GPUs {
				left := tt.want == runstate.Partial && g.Now.Compute == partition.SPX
				if left != (g.Error != "") {
					t.Errorf("%s: error %q, want one only for a GPU that is left as it is", g.Address, g.Error)
				}
			}
		})
	}
}
