package runstate

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/gpu/partition"
)

func TestPendingSince_UntilLoad(t *testing.T) {
	done := time.Now()
	request := Step{Step: partition.Step{Kind: partition.RequestMemory, GPU: "a", Hive: []partition.Address{"a", "b"}, To: "NPS4"}, Started: done, Finished: done}
	refused := Step{Step: partition.Step{Kind: partition.ReloadDriver}, Started: done, Finished: done, Error: "busy"}
	loaded := Step{Step: partition.Step{Kind: partition.ReloadDriver}, Started: done, Finished: done}
	killed := Step{Step: partition.Step{Kind: partition.ReloadDriver}, Started: done}
	planned := Step{Step: partition.Step{Kind: partition.ReloadDriver}}
	four := map[partition.Address]partition.Memory{"a": "NPS4", "b": "NPS4"}
	none := map[partition.Address]partition.Memory{}
	for name, tt := range map[string]struct {
		last *Run
		want map[partition.Address]partition.Memory
	}{
		"no run":                       {nil, nil},
		"another boot's":               {&Run{Boot: "x", Pending: four}, nil},
		"the reload was refused":       {&Run{Boot: "b", Steps: []Step{request, refused}}, four},
		"it was loaded":                {&Run{Boot: "b", Steps: []Step{request, loaded}}, none},
		"it was killed at it":          {&Run{Boot: "b", Steps: []Step{request, killed}}, none},
		"it has not begun":             {&Run{Boot: "b", Steps: []Step{request, planned}}, four},
		"the request was not made":     {&Run{Boot: "b", Steps: []Step{{Step: request.Step}}}, none},
		"a run that had nothing to do": {&Run{Boot: "b", Pending: four}, four},
		"a later run that loads it":    {&Run{Boot: "b", Pending: four, Steps: []Step{loaded}}, none},
	} {
		if diff := cmp.Diff(tt.want, PendingSince(tt.last, "b")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
