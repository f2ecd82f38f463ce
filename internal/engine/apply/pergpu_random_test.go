package apply

import (
	"maps"
	"math/rand/v2"
	"syscall"
	"testing"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/testkit/sim"
)

// computeModes returns the compute mode of each GPU, as the simulated hardware has it.
func (b *bench) computeModes() map[partition.Address]partition.Compute {
	out := make(map[partition.Address]partition.Compute)
	for _, g := range b.sim.State().GPUs {
		out[g.Address] = g.Mode().Compute
	}
	return out
}

// randomModes returns a profile with a random compute mode for each GPU, and these modes.
func (b *bench) randomModes(rng *rand.Rand) (partition.Profile, map[partition.Address]partition.Compute) {
	p, want := partition.Profile{Name: "test", Memory: partition.NPS1}, make(map[partition.Address]partition.Compute)
	modes := []partition.Compute{partition.SPX, partition.DPX, partition.QPX, partition.CPX}
	for i, g := range b.sim.State().GPUs {
		mode := modes[rng.IntN(len(modes))]
		p.Groups = append(p.Groups, partition.Group{Compute: mode, GPUs: []partition.Selector{{Index: i}}})
		want[g.Address] = mode
	}
	return p, want
}

// With unit-of-change = "gpu", random changes of several GPUs with up to two faults leave each GPU in its
// old or its new mode. Only a GPU with a fault keeps the old one, and the result reports that.
func TestEachGPU_RandomFaults(t *testing.T) {
	t.Parallel()
	b := newBench(t, "mi300x-8")
	b.opt.EachGPU = true
	const rounds = 40
	results := make(map[runstate.Result]int)
	for round := range rounds {
		rng := rand.New(rand.NewPCG(25, uint64(round)))
		profile, want := b.randomModes(rng)
		before := b.computeModes()
		faulty := make(map[partition.Address]bool)
		for range rng.IntN(3) {
			gpu := b.sim.State().GPUs[rng.IntN(8)].Address
			f := at(gpu, fail(sim.OpCompute, syscall.EINVAL))
			f.Times, faulty[gpu] = 1, true
			if err := b.sim.Inject(f); err != nil {
				t.Fatal(err)
			}
		}
		run := b.run(profile)
		b.sim.ClearFaults()
		results[run.Result]++
		after, failed, changed := b.computeModes(), 0, 0
		for gpu, now := range after {
			switch {
			case now == want[gpu] && now != before[gpu]:
				changed++
			case now == want[gpu]:
			case now == before[gpu] && faulty[gpu]:
				failed++
			default:
				t.Errorf("round %d: %s was %s, is %s, want %s; fault %t", round, gpu, before[gpu], now, want[gpu], faulty[gpu])
			}
		}
		expected := runstate.Applied
		switch {
		case failed > 0 && changed > 0:
			expected = runstate.Partial
		case failed > 0:
			expected = runstate.RolledBack
		case maps.Equal(before, after):
			expected = runstate.Unchanged
		}
		if run.Result != expected {
			t.Errorf("round %d: result %s, want %s: %d changed, %d failed; %+v", round, run.Result, expected, changed, failed, run.Error)
		}
	}
	t.Logf("%d rounds: %v", rounds, results)
	if results[runstate.Partial] == 0 || results[runstate.Applied] == 0 {
		t.Errorf("results of the rounds: want partial and applied among them, got %v", results)
	}
}

// A GPU that disappears while others change: no GPU stays between two modes, and the error names the GPU.
func TestEachGPU_LostGPU(t *testing.T) {
	t.Parallel()
	b := newBench(t, "mi300x-8")
	b.opt.EachGPU = true
	if err := b.sim.Inject(at(third, times(once, sim.Fault{Op: sim.OpCompute, Vanish: true}))); err != nil {
		t.Fatal(err)
	}
	run := b.run(profile(partition.CPX, partition.NPS1))
	trial{result: runstate.Failed, errText: string(third)}.judge(t, run)
	modes := make(map[partition.Compute]int)
	for gpu, mode := range b.computeModes() {
		if gpu != third {
			modes[mode]++
		}
	}
	if len(modes) != 1 {
		t.Errorf("modes of the other GPUs: want one, got %v", modes)
	}
}
