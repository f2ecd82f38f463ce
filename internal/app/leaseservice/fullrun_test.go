package leaseservice

import (
	"errors"
	"math"
	"testing"
)

func TestExplainFull(t *testing.T) {
	notFound := errors.New("Unit a.scope not found")
	for _, tt := range []struct {
		free uint64
		want string
	}{
		{math.MaxUint64, "Unit a.scope not found"},
		{unitSpace, "Unit a.scope not found"},
		{4096, "/run has no space left for the unit (found 4 KiB, want 64 KiB): Unit a.scope not found\nhint: delete large files below /run"},
	} {
		err := explainFull(notFound, tt.free)
		if err.Error() != tt.want || !errors.Is(err, notFound) {
			t.Errorf("%d bytes free: got %q, want %q", tt.free, err, tt.want)
		}
	}
	if got := freeSpace("/nowhere"); got != math.MaxUint64 {
		t.Errorf("unknown file system: got %d bytes", got)
	}
}
