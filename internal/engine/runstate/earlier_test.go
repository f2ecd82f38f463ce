package runstate

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A package upgrade keeps the state of an earlier version, with units that are down.
func TestState_PendingOfEarlierVersion(t *testing.T) {
	for text, want := range map[string]PendingStarts{
		`{"version":1,"owed":["b.service","a.service"],"owed-runs":{"a.service":"1f"}}`: {
			{Unit: "a.service", Invocation: "1f", Reason: StoppedByRun}, {Unit: "b.service", Reason: StoppedByRun},
		},
		`{"version":1,"owed":7}`: nil,
		`{"version":1,"owed":["a.service"],"pending_starts":[{"unit":"c.service","reason":"left-down"}]}`: {
			{Unit: "c.service", Reason: LeftDown},
		},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, StateFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		s, err := ReadState(dir)
		if err != nil || s == nil {
			t.Errorf("%s: got %v, %v", text, s, err)
			continue
		}
		if diff := cmp.Diff(want, s.Pending); diff != "" {
			t.Errorf("%s: pending starts (-want +got):\n%s", text, diff)
		}
	}
}
