package partition

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func (c Change) text() string {
	if c.Whole {
		return fmt.Sprintf("%s whole", c.GPU)
	}
	return fmt.Sprintf("%s kept [%s] removed [%s] created [%s]", c.GPU,
		strings.Join(texts(c.Kept), " "), strings.Join(texts(c.Removed), " "), strings.Join(texts(c.Created), " "))
}

func TestSteps_Changes(t *testing.T) {
	gpus := slices.Concat(migs(t, "7g.80gb@0", "off", "empty"), Typical(mi300x, 6)[3:])
	for _, tt := range []struct {
		name  string
		steps Steps
		want  []string
	}{
		{"nothing", nil, nil},
		{"one AMD GPU", Steps{{Kind: SwitchCompute, GPU: gpus[4].Address}}, []string{"0000:85:00.0 whole"}},
		{"a memory mode", Steps{{Kind: RequestMemory, GPU: gpus[3].Address, Hive: []Address{gpus[3].Address, gpus[4].Address}}},
			[]string{"0000:65:00.0 whole", "0000:85:00.0 whole"}},
		{"a reload", Steps{{Kind: ReloadDriver}}, []string{"0000:65:00.0 whole", "0000:85:00.0 whole", "0000:a6:00.0 whole"}},
		{"a mode", Steps{{Kind: SetMIGMode, GPU: gpus[1].Address, To: migEmpty}}, []string{"0000:26:00.0 whole"}},
		{"destroyed and created", Steps{{Kind: DestroyInstances, GPU: gpus[0].Address, To: migEmpty}, {Kind: CreateInstances, GPU: gpus[0].Address, MIG: migs(t, "3g.40gb@4")[0].MIG}},
			[]string{"0000:05:00.0 kept [] removed [7g.80gb@0] created [3g.40gb@4]"}},
		{"created", Steps{{Kind: CreateInstances, GPU: gpus[2].Address, MIG: migs(t, "3g.40gb@4")[0].MIG}},
			[]string{"0000:46:00.0 kept [] removed [] created [3g.40gb@4]"}},
	} {
		var got []string
		for _, c := range tt.steps.Changes(gpus) {
			got = append(got, c.text())
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
