package query

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/status"
	"dcm/internal/gpu/partition"
)

func TestPlaced(t *testing.T) {
	a := status.Account{
		GPUs: []status.GPU{{Index: 0, Address: "0000:05:00.0", Vendor: "amd"}, {Index: 1, Address: "0000:26:00.0", Vendor: "amd", Card: "/dev/dri/card8"}, {Index: 2, Address: "0000:46:00.0", Vendor: "amd"}},
		Parts: []status.Part{{Name: "0000:05:00.0-0", GPU: "0000:05:00.0", RenderNode: "/dev/dri/renderD128", Card: "/dev/dri/card0"}, {Name: "0000:05:00.0-1", GPU: "0000:05:00.0", RenderNode: "/dev/dri/renderD129"},
			{Name: "0000:26:00.0-0", GPU: "0000:26:00.0", RenderNode: "/dev/dri/renderD136"}},
	}
	for _, test := range []struct {
		name             string
		holder           runstate.Holder
		gpus, partitions []string
		numbers          string
	}{
		{"a render node", runstate.Holder{Devices: []string{"/dev/kfd", "/dev/dri/renderD129"}}, []string{"0000:05:00.0"}, []string{"0000:05:00.0-1"}, "0"},
		{"a card", runstate.Holder{Devices: []string{"/dev/dri/card0"}}, []string{"0000:05:00.0"}, []string{"0000:05:00.0-0"}, "0"},
		{"a node of the GPU", runstate.Holder{Devices: []string{"/dev/dri/card8"}}, []string{"0000:26:00.0"}, []string{}, "1"},
		{"leased", runstate.Holder{Leased: []string{"/dev/dri/renderD136"}}, []string{"0000:26:00.0"}, []string{"0000:26:00.0-0"}, "1"},
		{"attached", runstate.Holder{Devices: []string{"/dev/kfd"}, Attached: []partition.Address{"0000:46:00.0", "0000:05:00.0"}}, []string{"0000:05:00.0", "0000:46:00.0"}, []string{}, "0 2"},
		{"several", runstate.Holder{Devices: []string{"/dev/dri/renderD128", "/dev/dri/renderD136"}}, []string{"0000:05:00.0", "0000:26:00.0"}, []string{"0000:05:00.0-0", "0000:26:00.0-0"}, "0-1"},
		{"no GPU", runstate.Holder{Devices: []string{"/dev/kfd"}}, []string{}, []string{}, ""},
	} {
		got := placed(&host.Host{Root: t.TempDir()}, a, []runstate.Holder{test.holder})[0]
		if diff := cmp.Diff([][]string{test.gpus, test.partitions, {test.numbers}}, [][]string{got.GPUs, got.Partitions, {numbersOf(a, got.GPUs, 1)}}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestFolded(t *testing.T) {
	part := func(name, gpu string, holders ...string) usedPart {
		return usedPart{Part: status.Part{Name: name, GPU: gpu, Mode: "CPX/NPS4", RenderNode: "/dev/dri/renderD" + name[len(name)-1:], Memory: 24 << 30}, Holders: holders}
	}
	var got []string
	for _, p := range folded([]usedPart{part("g-0", "g"), part("g-1", "g", "x"), part("g-2", "g"), part("g-3", "g"), part("g-4", "g"), part("h-5", "h"), part("h-6", "h")}) {
		got = append(got, p.Name+" "+bare(p.RenderNode)+" "+p.each(amount(p.Memory)))
	}
	want := []string{"g-0 renderD0 24 GiB", "g-1 renderD1 24 GiB", "g-[2-4] renderD2…4 (3) 3 × 24 GiB", "h-[5-6] renderD5…6 (2) 2 × 24 GiB"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFailure_Cause(t *testing.T) {
	for text, want := range map[string]string{
		"cannot set CPX on 0000:a6:00.0 (QPX): the driver could not bring compute up: write /sys/x: input/output error; it now reads CPX; the undo failed as well: y": "input/output error",
		"timed out after 60s": "timed out after 60s",
		"a: b\nhint: c: d":    "b",
	} {
		a := status.Account{LastRun: &runstate.Run{Result: runstate.Failed, GPUs: []runstate.GPU{{Address: "g", Error: text}}}}
		g := status.GPU{Address: "g", Mode: status.Shape{Compute: "SPX"}, Want: status.Shape{Compute: "CPX"}}
		if got := failure(a, g); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := failure(a, status.GPU{Address: "h", Mode: g.Mode, Want: g.Want}); got != "" {
			t.Errorf("another GPU: %q", got)
		}
	}
}
