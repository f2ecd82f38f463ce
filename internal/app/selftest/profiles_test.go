package selftest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/gpu/partition"
)

func TestMIGProfiles(t *testing.T) {
	board, _ := partition.LookupBoard("H100-80GB")
	gpu := func(profiles []partition.InstanceProfile, off bool) []GPU {
		return []GPU{{GPU: partition.GPU{Address: "0000:00:06.0", Vendor: partition.NVIDIA, Device: board.Device, MIG: &partition.MIG{Off: off}, Profiles: profiles}}}
	}
	const all = "1 × 7g.80gb, 1 × 4g.40gb, 2 × 3g.40gb, 3 × 2g.20gb, 4 × 1g.20gb, 7 × 1g.10gb, 1 × 1g.10gb+me"
	for name, tt := range map[string]struct {
		gpus []GPU
		want []Check
	}{
		"no MIG":           {[]GPU{{}}, nil},
		"as in the table":  {gpu(board.Profiles, true), []Check{{Verdict: Right, Text: all}}},
		"none, MIG on":     {gpu(nil, false), []Check{{Verdict: Wrong, Text: "0000:00:06.0: the driver lists no profile that dcm can read"}}},
		"none, MIG off":    {gpu(nil, true), []Check{{Verdict: NotSeen, Text: "0000:00:06.0: the driver lists no profile that dcm can read while MIG is off"}}},
		"another firmware": {gpu(board.Profiles[:1], true), []Check{{Verdict: Noted, Text: "0000:00:06.0: 1 × 7g.80gb (the table of H100-80GB has " + all + ")"}}},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range tt.want {
				tt.want[i].At, tt.want[i].What, tt.want[i].Source = "as found", "MIG profiles", Library
			}
			if diff := cmp.Diff(tt.want, MIGProfiles("as found", tt.gpus)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
