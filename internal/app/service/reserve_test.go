package service

import (
	"errors"
	"testing"

	"dcm/internal/exitcode"
)

// Of what went wrong only reservations that cannot be met are no reason to choose again.
func TestChosen_ExitStatus(t *testing.T) {
	unmet, full := errors.New("3 partitions reserved, and there are 2"), errors.New("no space left on device")
	for _, tt := range []struct {
		unmet, err error
		want       int
	}{{nil, nil, exitcode.OK}, {unmet, nil, exitcode.Permanent}, {nil, full, exitcode.Transient}, {unmet, full, exitcode.Transient}} {
		if got := exitcode.Code(chosen(tt.unmet, tt.err)); got != tt.want {
			t.Errorf("%v, %v: exit status %d, want %d", tt.unmet, tt.err, got, tt.want)
		}
	}
}
