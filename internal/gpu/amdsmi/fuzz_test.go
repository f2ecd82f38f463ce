package amdsmi

import (
	"encoding/json"
	"testing"

	"dcm/internal/gpu/partition"
)

// FuzzRequest: what is accepted names a request that there is and, for a set, a GPU
// and a mode; and it says the same when it is written down again.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{
		`{"do":"version"}`, `{"do":"inventory","library":"/l"}`, `{"do":"set-compute","gpu":"0000:05:00.0","mode":"CPX"}`,
		`{"do":"set-memory","gpu":"0000:05:00.0","mode":"NPS4"}`, `{"do":"set-memory","gpu":"0000:05:00.0","mode":"CPX"}`,
		`{"do":"version"}{"do":"set-compute"}`, `{"DO":"version"}`, `null`, `{"do":"version","gpu":"x"}`, "",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ParseRequest(data)
		if err != nil {
			return
		}
		if !r.Looks() {
			a, err := partition.ParseAddress(string(r.GPU))
			_, noCompute := partition.ParseCompute(r.Mode)
			_, noMemory := partition.ParseMemory(r.Mode)
			if err != nil || a != r.GPU || (noCompute != nil) == (noMemory != nil) {
				t.Fatalf("%+v was accepted", r)
			}
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := ParseRequest(text); err != nil || again != r {
			t.Fatalf("%+v is read again as %+v, %v", r, again, err)
		}
	})
}
