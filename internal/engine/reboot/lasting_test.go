package reboot

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// tree returns a host whose directory is on the file system of the test.
func tree(t *testing.T, dir string) Host {
	h := Host{Dir: dir, Proc: t.TempDir(), Sys: t.TempDir()}
	put(t, filepath.Join(h.Proc, "sys/kernel/random/boot_id"), "one\n")
	put(t, filepath.Join(h.Proc, "1/stat"), "1 (a) b) S"+strings.Repeat(" 0", 18)+" 77 0\n")
	put(t, filepath.Join(h.Proc, "self/mountinfo"), "")
	return h
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestLasting_Tmpfs(t *testing.T) {
	var s unix.Statfs_t
	if err := unix.Statfs("/dev/shm", &s); err != nil || uint32(s.Type) != unix.TMPFS_MAGIC {
		t.Skip("needs a tmpfs at /dev/shm")
	}
	dir, err := os.MkdirTemp("/dev/shm", "dcm")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	h := tree(t, dir)
	put(t, filepath.Join(dir, witness), "another boot\n") // as an image may hold one
	if err := h.Lasting(); err == nil || !strings.Contains(err.Error(), "does not survive a reboot, since it is on tmpfs") {
		t.Errorf("Lasting returns %v, want a refusal that names tmpfs", err)
	}
}

func TestBlock_MemoryDisk(t *testing.T) {
	h := tree(t, t.TempDir())
	for name, want := range map[string]string{"sda1": "", "zram0": "the memory disk zram0", "ram3": "the memory disk ram3", "dm-0": "dm-0 on the memory disk zram1"} {
		dir := filepath.Join(h.Sys, "devices/virtual/block", name)
		put(t, filepath.Join(dir, "dev"), "")
		if name == "dm-0" {
			put(t, filepath.Join(dir, "slaves/zram1/dev"), "")
		}
		if kind, sure, err := h.block(dir); kind != want || !sure || err != nil {
			t.Errorf("%s: %q, %v, %v, want %q", name, kind, sure, err, want)
		}
	}
}

func TestOutlived_WitnessOfAnotherBoot(t *testing.T) {
	h := tree(t, t.TempDir())
	if h.outlived() {
		t.Error("outlived without a witness")
	}
	for range 2 {
		if err := h.Testify(); err != nil {
			t.Fatal(err)
		}
	}
	if h.outlived() {
		t.Error("outlived in the boot of the witness")
	}
	put(t, filepath.Join(h.Proc, "1/stat"), "1 (a) b) S"+strings.Repeat(" 0", 18)+" 78 0\n")
	if !h.outlived() {
		t.Error("a witness of a container's boot before is no evidence")
	}
	put(t, filepath.Join(h.Proc, "sys/kernel/random/boot_id"), "two\n")
	if err := h.Testify(); err != nil || !h.outlived() {
		t.Errorf("a witness of another boot is no evidence: %v", err)
	}
}
