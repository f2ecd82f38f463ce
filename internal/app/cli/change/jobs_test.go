package change

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/apply"
	"dcm/internal/gpu/partition"
)

// TestChanged: jobs on GPUs that stay as they are do not block the change.
func TestChanged(t *testing.T) {
	used := map[partition.Address][]string{"0000:05:00.0": {"0000:05:00.0-1"}, "0000:15:00.0": {"0000:15:00.0-0", "0000:15:00.0-2"}}
	gpus := []partition.GPU{{Address: "0000:05:00.0"}, {Address: "0000:15:00.0"}, {Address: "0000:25:00.0"}}
	step := func(kind partition.Kind, gpu partition.Address) partition.Step {
		return partition.Step{Kind: kind, GPU: gpu}
	}
	for _, tt := range []struct {
		name  string
		steps partition.Steps
		want  []string
	}{
		{"no change", nil, nil},
		{"a GPU without a job", partition.Steps{step(partition.SwitchCompute, "0000:25:00.0")}, nil},
		{"a GPU with a job", partition.Steps{step(partition.SwitchCompute, "0000:15:00.0")}, []string{"0000:15:00.0-0", "0000:15:00.0-2"}},
		{"settings of a GPU in use", partition.Steps{step(partition.SetAllocation, "0000:05:00.0")}, nil},
		{"a driver is reloaded", partition.Steps{step(partition.ReloadDriver, "")}, []string{"0000:05:00.0-1", "0000:15:00.0-0", "0000:15:00.0-2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := changed(apply.Difference{Steps: tt.steps, GPUs: gpus}, used)
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("partitions of jobs (-want +got):\n%s", d)
			}
		})
	}
}
