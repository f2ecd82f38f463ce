package configure

import (
	"fmt"
	"slices"

	"dcm/internal/app/doctor"
	"dcm/internal/engine/apply"
	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/filelock"
)

// addPartitions adds the facts of partitions, unless a run changes them now.
func addPartitions(h *host.Host, cfg *config.Config, devices []gpu.Device, to *doctor.Config) {
	if busy, err := filelock.Held(h.Locks().Run()); err == nil && !busy {
		to.Lacking, to.Foreign = lacking(devices), foreign(cfg, devices)
	}
}

// lacking returns the GPUs with a compute mode that have fewer partitions with device nodes than the mode has.
// A lease that switches the mode is not judged.
func lacking(devices []gpu.Device) (out []doctor.OnGPU) {
	for _, d := range devices {
		if d.SkipReason == "" && d.Compute != "" && d.MadeMode == (partition.MadeMode{}) && len(d.Parts) < d.Partitions() {
			out = append(out, doctor.OnGPU{GPU: string(d.Address), Text: fmt.Sprintf("found %d, want %d", len(d.Parts), d.Partitions())})
		}
	}
	return out
}

// foreign returns the instances of dynamic GPUs that neither the selected profile nor a lease has. The driver does
// not report which program created an instance.
func foreign(cfg *config.Config, devices []gpu.Device) (out []doctor.OnGPU) {
	if cfg.Selected == "" {
		return nil
	}
	d, err := apply.Compare(devices, cfg.Profile)
	if err != nil {
		return nil // dcm plan has the error
	}
	for _, s := range d.Steps {
		i := slices.IndexFunc(d.GPUs, func(g partition.GPU) bool { return g.Address == s.GPU })
		if s.Kind != partition.DestroyInstances || !d.Want.Dynamic[s.GPU] || s.MIG == nil || i < 0 {
			continue
		}
		surplus := counts(d.GPUs[i].MIG)
		for _, one := range slices.Concat(d.GPUs[i].Made, instances(d.Want.Shapes[s.GPU].MIG)) {
			surplus[one.Profile]--
		}
		for _, one := range s.MIG.Instances {
			if surplus[one.Profile] > 0 { // the others get another placement
				surplus[one.Profile]--
				out = append(out, doctor.OnGPU{GPU: string(s.GPU), Text: fmt.Sprintf("%s at slot %d", one.Profile, one.Start)})
			}
		}
	}
	return out
}

func instances(m *partition.MIG) []partition.Instance {
	if m == nil {
		return nil
	}
	return m.Instances
}

func counts(m *partition.MIG) map[string]int {
	out := make(map[string]int)
	for _, one := range instances(m) {
		out[one.Profile]++
	}
	return out
}
