package apply

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/testkit/sim"
	"dcm/internal/testkit/sim/simtest"
)

// scaled is a simulated node of that many GPUs, eight to a hive.
func scaled(t testing.TB, gpus int) (*simtest.Node, *gpu.Node) {
	k, err := sim.LookupKind("mi300x-8")
	if err != nil {
		t.Fatal(err)
	}
	s := simtest.StartKind(t, k.Scaled(gpus), sim.Options{})
	return s, over(s)
}

// BenchmarkRun measures a whole run with its reports, from one compute mode to another. The time
// for each GPU must not grow with the number of GPUs.
func BenchmarkRun(b *testing.B) {
	for _, gpus := range []int{8, 64, 512} {
		b.Run(fmt.Sprintf("%d GPUs", gpus), func(b *testing.B) {
			_, node := scaled(b, gpus)
			report := runstate.RunIn(b.TempDir())
			published, modes := 0, []partition.Compute{partition.DPX, partition.SPX}
			opt := Options{Rollback: true, DeviceTimeout: time.Minute, StepTimeout: time.Minute, ReloadTimeout: time.Minute}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				rec := NewRecorder(runstate.Run{}, slog.New(slog.DiscardHandler), func(r runstate.Run) {
					published++
					if err := report.Write(r); err != nil {
						b.Error(err)
					}
				})
				run := Run(b.Context(), nodeOf(node, node.Drivers()), profile(modes[i%2], partition.NPS1), opt, rec)
				if run.Result != runstate.Applied || len(run.Steps) != gpus {
					b.Fatalf("%s with %d steps: %v", run.Result, len(run.Steps), run.Error)
				}
			}
			b.ReportMetric(b.Elapsed().Seconds()*1e3/float64(b.N*gpus), "ms/GPU")
			b.ReportMetric(float64(published)/float64(b.N), "reports")
		})
	}
}
