package feature_test

import (
	"os"
	"path/filepath"
	"testing"

	"dcm/cmd/dcm-kubernetes/internal/feature"
)

func TestWrite(t *testing.T) {
	tests := map[string]struct {
		partitions map[string]int
		want       string
	}{
		"one mode": {map[string]int{"cpx_nps4": 64}, "dcm.amd.com/gpu.mode=CPX_NPS4\ndcm.amd.com/gpu.partitions=64\n"},
		"mixed":    {map[string]int{"cpx_nps1": 32, "spx_nps1": 4}, "dcm.amd.com/gpu.mode=mixed\ndcm.amd.com/gpu.partitions=36\n"},
		"no modes": {map[string]int{"": 4}, "dcm.amd.com/gpu.partitions=4\n"},
		"no GPUs":  {nil, "dcm.amd.com/gpu.partitions=0\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := feature.File(filepath.Join(t.TempDir(), "dcm"))
			if err := f.Write(tt.partitions); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(string(f))
			if err != nil || string(got) != tt.want {
				t.Errorf("wrote %q, %v", got, err)
			}
			if left, _ := os.ReadDir(filepath.Dir(string(f))); len(left) != 1 {
				t.Errorf("left %v", left)
			}
		})
	}
}

func TestWrite_SkipsUnchanged(t *testing.T) {
	f := feature.File(filepath.Join(t.TempDir(), "dcm"))
	if err := f.Write(map[string]int{"cpx_nps4": 64}); err != nil {
		t.Fatal(err)
	}
	before, _ := os.Stat(string(f))
	if err := f.Write(map[string]int{"cpx_nps4": 64}); err != nil {
		t.Fatal(err)
	}
	after, _ := os.Stat(string(f))
	if !os.SameFile(before, after) {
		t.Error("written again")
	}
}
