package binding

import (
	"errors"
	"os"
	"testing"

	"dcm/internal/gpu/nvml"
	"dcm/internal/gpu/nvml/standin"
	"dcm/internal/worker/sandbox"
)

// standIn loads the stand-in library with one GPU into this process.
func standIn(t *testing.T, board string) (*library, string) {
	t.Helper()
	lib, err := standin.Build(t.Context(), t.TempDir())
	if errors.Is(err, standin.ErrNoCompiler) && os.Getenv("DCM_E2E") != "require" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := standin.New("580.82.07", board, "0000:41:00.0")
	if err == nil {
		err = standin.Write(standin.StateOf(lib), s)
	}
	if err != nil {
		t.Fatal(err)
	}
	l, err := load(lib, sandbox.TrustOf(os.Getuid()))
	if err != nil {
		t.Fatal(err)
	}
	return l, standin.StateOf(lib)
}

// The library counts nvmlInit and nvmlShutdown, as other programs that use it rely on.
func TestStandIn_CountsInit(t *testing.T) {
	l, _ := standIn(t, "A30")
	status := func() uint32 {
		_, err := l.device("0000:41:00.0")
		return statusOf(err)
	}
	const uninitialised = 1
	steps := []struct {
		name string
		call func() uint32
		want uint32
		then uint32 // what another function returns afterwards
	}{
		{"shutdown before init", l.shutDown, uninitialised, uninitialised},
		{"init", l.initialise, nvml.StatusSuccess, nvml.StatusSuccess},
		{"init again", l.initialise, nvml.StatusSuccess, nvml.StatusSuccess},
		{"shutdown", l.shutDown, nvml.StatusSuccess, nvml.StatusSuccess},
		{"shutdown again", l.shutDown, nvml.StatusSuccess, uninitialised},
		{"one shutdown too many", l.shutDown, uninitialised, uninitialised},
	}
	for _, s := range steps {
		if got := s.call(); got != s.want {
			t.Errorf("%s: status %d, want %d", s.name, got, s.want)
		}
		if got := status(); got != s.then {
			t.Errorf("after %s: status %d, want %d", s.name, got, s.then)
		}
	}
}

// The number of MIG devices is zero while MIG is off, and that of the board's slices else.
func TestStandIn_MaxMigDeviceCount(t *testing.T) {
	for board, on := range map[string]uint32{"A30": 4, "A100-40GB": 7} {
		l, state := standIn(t, board)
		l.initialise()
		for _, mig := range []bool{false, true} {
			if err := standin.Update(state, func(s *standin.State) error { s.GPUs[0].Current = mig; return nil }); err != nil {
				t.Fatal(err)
			}
			device, err := l.device("0000:41:00.0")
			if err != nil {
				t.Fatal(err)
			}
			want, got := uint32(0), uint32(99)
			if mig {
				want = on
			}
			if status := l.maxDevices(device, &got); status != 0 || got != want {
				t.Errorf("%s, MIG %t: status %d, %d, want %d", board, mig, status, got, want)
			}
		}
		l.shutDown()
	}
}
