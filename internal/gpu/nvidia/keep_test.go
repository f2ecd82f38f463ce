package nvidia

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/gpu"
	"dcm/internal/gpu/nvml/standin"
	"dcm/internal/gpu/partition"
)

// to executes batches of steps until the first GPU has the geometry. It returns the executed steps
// and the first error.
func (b *bench) to(text string) ([]string, error) {
	b.t.Helper()
	var made []string
	for {
		devices := b.gpus()
		now, _ := b.plan(devices, text).NextBatch()
		if len(now) == 0 {
			return made, nil
		}
		made = append(made, now[0].String())
		if err := b.node.Execute(b.t.Context(), now, func(partition.Step, bool, error) {}); err != nil {
			return made, err
		}
	}
}

// plan returns the steps that give the first GPU the geometry.
func (b *bench) plan(devices []gpu.Device, text string) partition.Steps {
	b.t.Helper()
	m := new(partition.MIG)
	if err := m.UnmarshalText([]byte(text)); err != nil {
		b.t.Fatal(err)
	}
	steps, err := partition.Plan(partition.Layout{Shapes: map[partition.Address]partition.Shape{devices[0].Address: {MIG: m}}}, gpu.Partitionable(devices))
	if err != nil {
		b.t.Fatal(err)
	}
	return steps
}

// partsAt returns UUID and nodes of the partitions of the first GPU by their first slots.
func (b *bench) partsAt() map[int]string {
	out := make(map[int]string)
	for _, p := range b.gpus()[0].Parts {
		out[p.Start] = fmt.Sprint(p.Profile, p.ID, p.Node, p.CompanionNodes)
	}
	return out
}

func TestExecute_KeptInstances(t *testing.T) {
	for _, ids := range []string{"", "ids-reversed"} {
		b := newBench(t, "h100-8")
		if ids != "" {
			b.turn(ids)
		}
		if _, err := b.to("1g.10gb@0 1g.10gb@1 2g.20gb@2 3g.40gb@4"); err != nil {
			t.Fatal(err)
		}
		before := b.partsAt()
		var open []string
		for _, p := range b.gpus()[0].Parts {
			if p.Start == 2 {
				for _, node := range append([]string{p.Node}, p.CompanionNodes...) {
					open = append(open, strings.TrimPrefix(node, "/dev/"))
				}
			}
		}
		b.holder(open...)
		const target = "1g.20gb 2g.20gb 1g.10gb+me 1g.10gb 1g.10gb"
		u, err := b.node.Usage(t.Context())
		if devices := b.gpus(); err != nil || len(u.Holders) != 1 || len(gpu.Blockers(b.plan(devices, target), devices, u.Holders)) > 0 {
			t.Errorf("the holder of an instance that stays blocks: %+v, %v", u.Holders, err)
		}
		made, err := b.to(target)
		want := []string{
			"destroy 3g.40gb@4 of 0000:1b:00.0, keep 1g.10gb@0, 1g.10gb@1, 2g.20gb@2",
			"create 1g.20gb@4, 1g.10gb+me@6 on 0000:1b:00.0, keep 1g.10gb@0, 1g.10gb@1, 2g.20gb@2",
		}
		if diff := cmp.Diff(want, made); err != nil || diff != "" {
			t.Errorf("%v, steps (-want +got):\n%s", err, diff)
		}
		after := b.partsAt()
		for _, start := range []int{0, 1, 2} {
			if before[start] != after[start] {
				t.Errorf("the partition at slot %d was %s and is %s", start, before[start], after[start])
			}
		}
		if len(after) != 5 {
			t.Errorf("partitions %v", after)
		}
		// An instance in use cannot be destroyed.
		if _, err := b.to("7g.80gb"); err == nil || !strings.Contains(err.Error(), "2g.20gb") || !gpu.IsTransient(err) {
			t.Errorf("error %v", err)
		}
	}
}

// An interrupted change leaves instances without compute instances. Only these are destroyed,
// before others are created.
func TestExecute_HollowAndKeptInstances(t *testing.T) {
	b := newBench(t, "h100-8")
	if _, err := b.to("2g.20gb@0 2g.20gb@2 3g.40gb@4"); err != nil {
		t.Fatal(err)
	}
	before := b.partsAt()
	b.change(func(s *standin.State) {
		for i := range s.GPUs[0].Instances {
			if g := &s.GPUs[0].Instances[i]; g.Start == 4 {
				g.Compute = nil
			} else {
				g.Busy = 1
			}
		}
	})
	made, err := b.to("2g.20gb 2g.20gb 2g.20gb")
	if err != nil || len(made) != 1 {
		t.Errorf("steps %q (%v)", made, err)
	}
	for start, after := range b.partsAt() {
		if start < 4 && before[start] != after {
			t.Errorf("the partition at slot %d was %s and is %s", start, before[start], after)
		}
	}
	if got := b.shapes()[0]; got != "3 × 2g.20gb" {
		t.Errorf("it is %s", got)
	}
}
