package leases

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/dbusapi"
)

func TestEnvironment(t *testing.T) {
	parts := []runstate.Part{
		{Name: "0000:05:00.0-0", Kind: "amd CPX/NPS1", NUMA: 0},
		{Name: "0000:05:00.0-1", Kind: "amd CPX/NPS1", NUMA: 0},
		{Name: "0000:85:00.0-0", Kind: "amd CPX/NPS1", NUMA: 1},
		{Name: "0000:95:00.0-0", Kind: "amd CPX/NPS1", NUMA: -1},
		{Name: "0000:07:00.0-0", Kind: "nvidia 3g.40gb", NUMA: 0, UUID: "MIG-a"},
		{Name: "0000:07:00.0-1", Kind: "nvidia 3g.40gb", NUMA: 0, UUID: "MIG-b"},
	}
	const unit = "dcm-lease-0-00000001.scope"
	for _, tt := range []struct {
		name, inherited, partitions string
		want                        []string // without DCM_LEASE, DCM_PARTITIONS and DCM_CDI_DEVICES
		notes                       string   // the variables that the notes name
	}{
		{"two NUMA nodes", "HOME=/root", "0000:85:00.0-0 0000:05:00.0-0 0000:05:00.0-1", []string{"HOME=/root", "DCM_NUMA_NODES=0,1"}, ""},
		{"unknown NUMA node", "", "0000:05:00.0-0 0000:95:00.0-0", nil, ""},
		{"unknown partition", "", "0000:05:00.0-7", nil, ""},
		{"filters of AMD", "ROCR_VISIBLE_DEVICES=3 HIP_VISIBLE_DEVICES=0 CUDA_VISIBLE_DEVICES=1", "0000:05:00.0-0",
			[]string{"ROCR_VISIBLE_DEVICES=3", "HIP_VISIBLE_DEVICES=0", "CUDA_VISIBLE_DEVICES=1", "DCM_NUMA_NODES=0"}, "ROCR HIP CUDA"},
		{"empty filter", "HIP_VISIBLE_DEVICES=", "0000:05:00.0-0", []string{"HIP_VISIBLE_DEVICES=", "DCM_NUMA_NODES=0"}, ""},
		{"one MIG device", "HIP_VISIBLE_DEVICES=1", "0000:07:00.0-0", []string{"HIP_VISIBLE_DEVICES=1", "DCM_NUMA_NODES=0"}, ""},
		{"two MIG devices", "", "0000:07:00.0-0 0000:07:00.0-1", []string{"DCM_NUMA_NODES=0", "CUDA_VISIBLE_DEVICES=MIG-a,MIG-b"}, ""},
		{"filter of CUDA", "CUDA_VISIBLE_DEVICES=5", "0000:07:00.0-0 0000:07:00.0-1", []string{"CUDA_VISIBLE_DEVICES=5", "DCM_NUMA_NODES=0"}, "CUDA"},
		{"in another lease", "DCM_LEASE=x DCM_PARTITIONS=y DCM_NUMA_NODES=1 DCM_CDI_DEVICES=z CUDA_VISIBLE_DEVICES=MIG-x,MIG-y", "0000:07:00.0-0", []string{"DCM_NUMA_NODES=0"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			names := strings.Fields(tt.partitions)
			env, notes := environment(strings.Fields(tt.inherited), dbusapi.Lease{Unit: unit, Partitions: names}, []string{"vendor.com/gpu=1", "vendor.com/gpu=2"}, parts)
			want := append([]string{"DCM_LEASE=" + unit, "DCM_PARTITIONS=" + tt.partitions, "DCM_CDI_DEVICES=vendor.com/gpu=1 vendor.com/gpu=2"}, tt.want...)
			if diff := cmp.Diff(set(want), set(env)); diff != "" || len(env) != len(want) {
				t.Errorf("environment (-want +got):\n%s\n%q", diff, env)
			}
			var named []string
			for _, note := range notes {
				name, _, _ := strings.Cut(note, "_VISIBLE_DEVICES=")
				named = append(named, name)
			}
			if got := strings.Join(named, " "); got != tt.notes {
				t.Errorf("notes: got %q, want those about %q", notes, tt.notes)
			}
		})
	}
}

func set(env []string) map[string]bool {
	out := make(map[string]bool)
	for _, entry := range env {
		out[entry] = true
	}
	return out
}
