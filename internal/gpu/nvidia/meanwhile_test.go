package nvidia

import (
	"fmt"
	"slices"
	"testing"

	"dcm/internal/gpu/nvml/standin"
)

// Others create and destroy instances while the GPU is read.
func TestDescribe_InstancesChangeMeanwhile(t *testing.T) {
	for name, c := range map[string]struct {
		had  map[string]int
		when string // the function before which the change happens
		gone bool   // the instance at slot 0 is destroyed; otherwise one of 3g.40gb is created at slot 0
		want string
	}{
		"created before the devices":             {map[string]int{"1g.10gb": 1}, "nvmlDeviceGetMaxMigDeviceCount", false, "3g.40gb, 1g.10gb"},
		"destroyed before its properties":        {map[string]int{"1g.10gb": 2}, "nvmlGpuInstanceGetInfo", true, "1g.10gb"},
		"destroyed before its compute instances": {map[string]int{"1g.10gb": 2}, "nvmlGpuInstanceGetComputeInstances", true, "1g.10gb"},
		"compute instance destroyed":             {map[string]int{"1g.10gb": 2}, "nvmlComputeInstanceGetInfo_v2", true, "1g.10gb"},
		"destroyed before the devices":           {map[string]int{"1g.10gb": 2}, "nvmlDeviceGetMaxMigDeviceCount", true, "1g.10gb"},
		"destroyed before the name of a device":  {map[string]int{"1g.10gb": 2}, "nvmlDeviceGetGpuInstanceId", true, "1g.10gb"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "h100-8")
			if err := b.make(c.had, 0); err != nil {
				t.Fatal(err)
			}
			var lines []string
			b.change(func(s *standin.State) {
				g := s.GPUs[0]
				lines = []string{fmt.Sprintf("gone 0 %d", g.Instances[0].ID)}
				if !c.gone {
					at := slices.IndexFunc(g.Profiles, func(p standin.Profile) bool { return p.Name == "3g.40gb" })
					lines = []string{fmt.Sprintf("gi 0 11 %d 0 0", at), "ci 0 11 0 3 0"}
				}
			})
			for _, line := range lines {
				b.turn("meanwhile " + c.when + " " + line)
			}
			d := b.gpus()[0]
			if got := d.Shape().String(); d.SkipReason != "" || got != c.want || len(d.Parts) != len(d.MIG.Instances) {
				t.Errorf("got %s with %d partitions (%s), want %s", got, len(d.Parts), d.SkipReason, c.want)
			}
		})
	}
}
