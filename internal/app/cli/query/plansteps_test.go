package query

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/gpu/partition"
)

func TestStepTexts_JoinsGPUs(t *testing.T) {
	step := func(kind partition.Kind, gpu, from, to string) partition.Step {
		return partition.Step{Kind: kind, GPU: partition.Address(gpu), From: from, To: to}
	}
	got := stepTexts([]partition.Step{
		step(partition.SwitchCompute, "0000:05:00.0", "QPX", "SPX"),
		step(partition.RequestMemory, "0000:05:00.0", "NPS4", "NPS1"),
		step(partition.ReloadDriver, "", "", ""),
		step(partition.SwitchCompute, "0000:05:00.0", "SPX", "CPX"),
		step(partition.SwitchCompute, "0000:26:00.0", "SPX", "CPX"),
		step(partition.SwitchCompute, "0000:46:00.0", "SPX", "DPX"),
	})
	if diff := cmp.Diff([]string{
		"switch 0000:05:00.0 from QPX to SPX",
		"request NPS1 for 0000:05:00.0 (now NPS4)",
		"reload the driver",
		"switch 2 GPUs from SPX to CPX: 0000:05:00.0, 0000:26:00.0 (SPX is the mode after the reload)",
		"switch 0000:46:00.0 from SPX to DPX (SPX is the mode after the reload)",
	}, got); diff != "" {
		t.Errorf("texts (-want +got):\n%s", diff)
	}
}
