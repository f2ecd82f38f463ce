package sim

import (
	"path/filepath"
	"slices"
	"testing"

	"dcm/internal/nvml/standin"
)

// A machine that is another one than before has none of its instances and knobs.
func TestOtherGPUsBeginAnew(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nvml")
	begin := func(kind string) standin.State {
		t.Helper()
		k, err := LookupKind(kind)
		if err != nil {
			t.Fatal(err)
		}
		if err := New(k, Options{MIG: file}).Begin(); err != nil {
			t.Fatal(err)
		}
		s, err := standin.Read(file)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	begin("a100-8")
	if err := standin.Update(file, func(s *standin.State) error {
		s.GPUs[0].Current, s.GPUs[0].Pending, s.Knobs = true, true, []string{"noise"}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if s := begin("a100-8"); !s.GPUs[0].Current || !slices.Contains(s.Knobs, "noise") {
		t.Errorf("after a reboot there is %+v, %q", s.GPUs[0], s.Knobs)
	}
	if s := begin("a30-4"); len(s.GPUs) != 4 || s.GPUs[0].Current || slices.Contains(s.Knobs, "noise") {
		t.Errorf("other GPUs begin with %+v, %q", s.GPUs[0], s.Knobs)
	}
}
