package host

import (
	"os"
	"testing"

	"dcm/internal/engine/runstate"
)

func TestAGuardThatIsSwitchedOffIsToldOf(t *testing.T) {
	h := &Host{Root: t.TempDir()}
	p := runstate.Partitions{Reservations: []runstate.Reservation{{Name: "vllm", Partitions: []string{"a-0"}, Exclusive: true}}}
	for _, err := range []error{
		os.MkdirAll(h.Runtime(), 0o755),
		runstate.PartitionsIn(h.Runtime()).Write(p),
		runstate.GuardIn(h.Runtime()).Write(runstate.Guard{}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	why := func() string {
		t.Helper()
		r, err := h.reserve(t.Context(), nil, false, false)
		if err != nil {
			t.Fatal(err)
		}
		return r.Guard.Why
	}
	if got := why(); got != "" {
		t.Errorf("before it is said that %s", got)
	}
	if err := os.WriteFile(h.GuardOff(), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := why(); got != "an administrator has switched the guard off" {
		t.Errorf("it is said that %q", got)
	}
}
