package sim

import (
	"context"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"dcm/internal/gpu/partition"
)

// TestNode_Invariants does arbitrary things to a node and checks
// after each that the parts of its state agree.
func TestNode_Invariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom(Kinds()).Draw(t, "kind")
		n := New(kind, Options{NodeLock: rapid.Bool().Draw(t, "node lock")})
		ctx := context.Background()
		gpu := func(t *rapid.T) partition.Address { return rapid.SampledFrom(n.boards).Draw(t, "gpu").Address }
		var open []*Handle
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) { consistent(t, n, len(open)) },
			"compute": func(t *rapid.T) {
				n.SetCompute(ctx, gpu(t), string(rapid.SampledFrom(partition.ComputeModes()).Draw(t, "mode")))
			},
			"memory": func(t *rapid.T) {
				n.SetMemory(ctx, gpu(t), string(rapid.SampledFrom(partition.MemoryModes()).Draw(t, "mode")))
			},
			"open kfd": func(*rapid.T) {
				if h, err := openKFD(n, 1); err == nil {
					open = append(open, h)
				}
			},
			"open drm": func(t *rapid.T) {
				b := n.find(gpu(t))
				h, err := openDRM(n, b, rapid.SampledFrom(b.minors).Draw(t, "minor"), 2)
				switch {
				case err != nil:
				case b.Chip.AMD():
					open = append(open, h)
				default:
					h.Close()
				}
			},
			"close": func(t *rapid.T) {
				if len(open) > 0 {
					open[0].Close()
					open = open[1:]
				}
			},
			"unload": func(t *rapid.T) {
				if err := n.Unload(ctx); err == nil && len(open) > 0 {
					t.Fatalf("unloaded with %d devices open", len(open))
				}
			},
			"load": func(t *rapid.T) {
				n.Load(ctx, Parameters{Mode: rapid.SampledFrom(append(partition.ComputeModes(), "")).Draw(t, "parameter")})
			},
			"unload nvidia": func(*rapid.T) { n.UnloadNVIDIA() },
			"load nvidia":   func(*rapid.T) { n.LoadNVIDIA() },
			"appear":        func(t *rapid.T) { n.Inject(Fault{Op: OpNow, GPU: gpu(t), Appear: true}) },
			"vanish":        func(t *rapid.T) { n.Inject(Fault{Op: OpNow, GPU: gpu(t), Vanish: true}) },
			"reset":         func(*rapid.T) { n.Reset() },
		})
	})
}

func consistent(t *rapid.T, n *Node, open int) {
	s := n.State()
	partitions := 0
	for _, g := range s.GPUs {
		b := n.find(g.Address)
		partitions += g.Partitions
		module := s.Module
		if b.Chip.NVIDIA() {
			module = s.NVIDIA
		}
		if g.Bound && (module != "live" || g.Vanished) {
			t.Fatalf("%s is bound to a driver that is not there: %+v", g.Address, g)
		}
		fits := b.Chip.Fits(g.Memory)
		if g.Bound && len(fits) > 0 && !slices.Contains(fits, g.Compute) {
			t.Fatalf("%s has %s, which do not fit", g.Address, g.Mode())
		}
		for _, other := range hiveOf(n, b) {
			if g.Bound && other.bound && other.pending != b.pending {
				t.Fatalf("%s awaits %q, %s of the same hive %q", b.Address, b.pending, other.Address, other.pending)
			}
		}
	}
	if nodes := len(kfdNodes(n)); nodes != n.kind.CPUs+partitions {
		t.Fatalf("%d KFD nodes for %d partitions and %d CPUs", nodes, partitions, n.kind.CPUs)
	}
	if len(n.handles) != open {
		t.Fatalf("%d devices are open, %d are counted", open, len(n.handles))
	}
}

// A model that accepts only some compute modes has one of them after a load of the driver.
func TestModeAtLoad_Fits(t *testing.T) {
	for _, k := range Kinds() {
		for _, b := range k.Boards {
			for _, m := range b.Chip.Memory {
				fits := b.Chip.Fits(m)
				if got := modeAtLoad(b.Chip, m, ""); len(fits) > 0 && !slices.Contains(fits, got) {
					t.Errorf("%s, %s with %s: %s, want one of %v", k.Name, b.Address, m, got, fits)
				}
			}
		}
	}
}
