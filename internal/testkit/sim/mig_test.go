package sim

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"dcm/internal/gpu/nvml/standin"
)

// A machine that is another one than before has none of its instances and knobs.
func TestMIG_OtherGPUs(t *testing.T) {
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

// The last close of a file comes when the process that had it has long ended, and perhaps
// when the directory of the state is being removed.
func TestMIG_NoWriteAfterClose(t *testing.T) {
	dir := t.TempDir()
	k, err := LookupKind("a100-8")
	if err != nil {
		t.Fatal(err)
	}
	n := New(k, Options{MIG: filepath.Join(dir, "nvml")})
	if err := n.Begin(); err != nil {
		t.Fatal(err)
	}
	h, err := openNVIDIA(n, "nvidia0", n.boards[0], noInstance, 1)
	if err != nil {
		t.Fatal(err)
	}
	n.End()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	h.Close()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("files: got %v, %v", left, err)
	}
}

// nvidia_drm with modeset=1 holds the GPUs until it is unloaded, which an open DRM device prevents.
func TestDisplayModule(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nvml")
	k, err := LookupKind("a100-8")
	if err != nil {
		t.Fatal(err)
	}
	n := New(k, Options{MIG: file, Modeset: true})
	if err := n.Begin(); err != nil {
		t.Fatal(err)
	}
	held := func(want bool) {
		t.Helper()
		if s, err := standin.Read(file); err != nil || s.Held != want {
			t.Errorf("held: got %v, %v, want %v", s.Held, err, want)
		}
	}
	held(true)
	h, err := openDRM(n, n.boards[0], n.boards[0].minors[0], 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := unloadDisplay(n); err != syscall.EBUSY {
		t.Errorf("unload with an open device: %v", err)
	}
	held(true)
	h.Close()
	if err := unloadDisplay(n); err != nil {
		t.Fatal(err)
	}
	held(false)
	if _, err := openDRM(n, n.boards[0], n.boards[0].minors[0], 1); err != syscall.ENODEV {
		t.Errorf("a DRM device without its module: %v", err)
	}
	if err := unloadDisplay(n); err != syscall.ENOENT {
		t.Errorf("second unload: %v", err)
	}
	if err := loadDisplay(n); err != nil {
		t.Fatal(err)
	}
	held(true)
	if err := n.UnloadNVIDIA(); err != nil {
		t.Fatal(err)
	}
	held(false)
	if err := loadDisplay(n); err != syscall.ENODEV {
		t.Errorf("load without the driver: %v", err)
	}
}
