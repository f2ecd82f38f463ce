package binding

import (
	"slices"
	"testing"

	"dcm/internal/gpu/nvml"
	"dcm/internal/gpu/nvml/standin"
	"dcm/internal/gpu/partition"
)

// If a compute instance is in use, those before it in the same GPU instance are created again. An
// instance whose compute instances are destroyed is reused if its GPU instance cannot be destroyed.
func TestDestroyInstances_InUse(t *testing.T) {
	const gpu = partition.Address("0000:41:00.0")
	want := []partition.Instance{{Profile: "2g.10gb", Start: 0, Compute: []string{"1c.2g.10gb", "1c.2g.10gb"}}}
	for knob, reused := range map[string]bool{"fail nvmlComputeInstanceDestroy 19 1": false, "fail nvmlGpuInstanceDestroy 19": true} {
		l, state := standIn(t, "A100-40GB")
		l.initialise()
		err := standin.Update(state, func(s *standin.State) error { s.GPUs[0].Current, s.GPUs[0].Pending = true, true; return nil })
		if err != nil {
			t.Fatal(err)
		}
		if err := createInstances(l, gpu, want); err != nil {
			t.Fatal(err)
		}
		if err := standin.Update(state, func(s *standin.State) error { s.Knobs = []string{knob}; return nil }); err != nil {
			t.Fatal(err)
		}
		if err := destroyInstances(l, gpu, nil); statusOf(err) != nvml.StatusInUse {
			t.Errorf("%s: error %v, want one that says in use", knob, err)
		}
		if reused {
			if err := createInstances(l, gpu, want); err != nil {
				t.Errorf("%s: reuse: %v", knob, err)
			}
		}
		k, err := openGPU(l, gpu)
		if err != nil {
			t.Fatal(err)
		}
		list, err := k.list()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, i := range list {
			for _, c := range i.Compute {
				got = append(got, c.Profile)
			}
		}
		if !slices.Equal(got, want[0].Compute) {
			t.Errorf("%s: compute instances %q, want %q", knob, got, want[0].Compute)
		}
		l.shutDown()
	}
}
