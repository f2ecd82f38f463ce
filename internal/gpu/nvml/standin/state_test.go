package standin

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/gpu/partition"
)

func full(t *testing.T) State {
	t.Helper()
	s, err := New("580.82.07", "H100-80GB", "0000:41:00.0")
	if err == nil {
		err = s.Add("A30", "0000:42:00.0")
	}
	if err != nil {
		t.Fatal(err)
	}
	s.Knobs = []string{"in-use 0000:41:00.0", "noise"}
	s.Held = true
	g := &s.GPUs[1]
	g.Node, g.Current, g.Pending, g.Resetless, g.Lost = "/dev/nvidia1", true, true, -1, true
	g.Instances = []Instance{{ID: 3, Profile: "2g.12gb", Start: 2, Compute: []Compute{{0, 1, 0}, {1, 1, 1}}}, {ID: 7, Profile: "1g.6gb"}}
	g.Processes = []Process{{PID: 4711, Memory: 1 << 33, GI: 3, CI: 1}, {PID: 4712, GI: 0xFFFFFFFF, CI: 0xFFFFFFFF, Graphics: true}}
	return s
}

func TestState_RoundTrip(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "state"), filepath.Join(dir, "lib.state")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	want := full(t)
	if err := Write(link, want); err != nil {
		t.Fatal(err)
	}
	got, err := Read(file)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if err := Unturn(file, "noise"); err != nil {
		t.Fatal(err)
	}
	if err := Turn(file, "in-use x"); err != nil {
		t.Fatal(err)
	}
	if got, err = Read(file); err != nil || !cmp.Equal(got.Knobs, []string{"in-use 0000:41:00.0", "in-use x"}) {
		t.Errorf("knobs %q, %v", got.Knobs, err)
	}
	if err := os.WriteFile(file, []byte("driver 1\ngpu 0000:41:00.0 x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(file); err == nil {
		t.Error("a line that lacks fields is read")
	}
}

func TestState_WithoutModule(t *testing.T) {
	s := full(t)
	s.GPUs[0].Current, s.GPUs[0].Pending = true, true
	s.GPUs[1].Pending = false
	s.Reboot()
	for i, g := range s.GPUs {
		if g.Current || g.Pending || g.Instances != nil || g.Epoch != 1 || g.Lost {
			t.Errorf("GPU %d: %+v", i, g)
		}
	}
	s.GPUs[1].Pending = true // set, and not in effect
	s.Unload()
	if s.Loaded || !s.GPUs[1].Current || s.Epoch != 2 {
		t.Errorf("%+v", s)
	}
}

// Each board has every one of its profiles at an index of its own, below the count of them.
func TestProfiles_Index(t *testing.T) {
	for _, b := range partition.Boards() {
		s, err := New("580.82.07", b.Name, "0000:41:00.0")
		if err != nil {
			t.Fatal(err)
		}
		seen := make(map[int]string)
		for _, p := range s.GPUs[0].Profiles {
			if other, ok := seen[p.Index]; ok || p.Index > 0x11 {
				t.Errorf("%s: %s and %s are at index %d", b.Name, p.Name, other, p.Index)
			}
			seen[p.Index] = p.Name
		}
	}
}
