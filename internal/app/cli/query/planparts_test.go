package query

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/apply"
	"dcm/internal/frontends/status"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

func TestPlannedParts(t *testing.T) {
	const a = "0000:05:00.0"
	at := func(list ...partition.Instance) *partition.MIG { return &partition.MIG{Instances: list} }
	stays, goes := partition.Instance{Profile: "4g.40gb"}, partition.Instance{Profile: "3g.40gb", Start: 4}
	d := apply.Difference{
		Devices: []gpu.Device{{
			GPU: partition.GPU{Address: a, Vendor: partition.NVIDIA, MIG: at(stays, goes)},
			Parts: []gpu.Part{
				{Index: 0, Profile: "4g.40gb", Node: "/dev/nvidia-caps/nvidia-cap4"},
				{Index: 1, Profile: "3g.40gb", Start: 4, Node: "/dev/nvidia-caps/nvidia-cap13"},
			},
		}},
		Steps: partition.Steps{{Kind: partition.DestroyInstances, GPU: a, MIG: at(goes), Kept: at(stays)}},
	}
	account := status.Account{
		Reserved: status.List[status.Reserved]{{Unit: "vllm.service", Partitions: status.List[string]{a + "-0"}}},
		Holders: status.List[status.Holder]{
			{Unit: "vllm.service", Devices: status.List[string]{"/dev/nvidia-caps/nvidia-cap4"}},
			{Command: "python", Devices: status.List[string]{"/dev/nvidia-caps/nvidia-cap13"}},
			{Unit: "dcm-lease-1000-4f1c09aa.scope", Leased: status.List[string]{"/dev/nvidia-caps/nvidia-cap13"}},
			{Unit: "other.service", Devices: status.List[string]{"/dev/nvidia1"}},
		},
	}
	parts := plannedParts(d, account)
	want := []plannedPart{
		{a + "-1", a, "3g.40gb", false, []string{"python", "dcm-lease-1000-4f1c09aa.scope"}},
		{a + "-0", a, "4g.40gb", true, []string{"vllm.service"}},
	}
	if diff := cmp.Diff(want, parts); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
	parts = append(parts, plannedPart{a + "-2", a, "3g.40gb", false, []string{"python", "dcm-lease-1000-4f1c09aa.scope"}})
	var out bytes.Buffer
	printParts(&console.Console{Out: &out}, parts)
	text := "Partitions in use or reserved that change or disappear:\n  0000:05:00.0-[1-2] 3g.40gb: python, dcm-lease-1000-4f1c09aa.scope\n" +
		"Partitions in use or reserved that stay:\n  0000:05:00.0-0 4g.40gb: vllm.service\n"
	if diff := cmp.Diff(text, out.String()); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}
