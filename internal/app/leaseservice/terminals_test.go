package leaseservice

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"dcm/internal/engine/host"
)

// openTerminal returns the master of a new pseudo terminal, and its number.
func openTerminal(t *testing.T) (*os.File, int) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	return master, number
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

func TestWriteNotice(t *testing.T) {
	master, number := openTerminal(t)
	h := &host.Host{Root: t.TempDir()}
	unit := fmt.Sprintf("dcm-lease-%d-00000001.scope", os.Getuid())
	foreign := fmt.Sprintf("dcm-lease-%d-00000002.scope", os.Getuid()+1)
	put(t, h.Path("sys/fs/cgroup/dcm.slice", unit, "cgroup.procs"), "11\n12\n13\n14\n")
	put(t, h.Path("sys/fs/cgroup/dcm.slice", foreign, "cgroup.procs"), "11\n")
	device := 136<<8 | number
	put(t, h.Path("proc/11/stat"), fmt.Sprintf("11 (a) b) S) S 1 11 11 %d 11 4194304 0\n", device))
	put(t, h.Path("proc/12/stat"), fmt.Sprintf("12 (sh) S 11 11 11 %d 11 4194304 0\n", device))
	put(t, h.Path("proc/13/stat"), "13 (daemon) S 1 13 13 0 -1 4194304 0\n") // no terminal
	if err := os.MkdirAll(h.Path("dev"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/pts", h.Path("dev/pts")); err != nil {
		t.Fatal(err)
	}
	until := fmt.Sprint(time.Now().Add(5 * time.Minute).UnixMicro())
	if err := WriteNotice(h, foreign, until); err != nil { // writes nothing
		t.Error(err)
	}
	if err := WriteNotice(h, unit, until); err != nil { // once, although two processes have the terminal
		t.Error(err)
	}
	buffer := make([]byte, 4096)
	n, err := master.Read(buffer)
	got := string(buffer[:n])
	if err != nil || strings.Count(got, "dcm: "+unit+" ends at ") != 1 || strings.Contains(got, foreign) || !strings.Contains(got, "extend "+unit) {
		t.Errorf("terminal: got %q, %v; want one notice of %s", got, err, unit)
	}
}

func TestWriteNotice_Arguments(t *testing.T) {
	h := &host.Host{Root: t.TempDir()}
	for _, tt := range []struct{ unit, until, want string }{
		{"dcm-lease-0-00000001.scope", "soon", "invalid time"}, {"dcm-lease-0-00000001.scope", "-1", "invalid time"},
		{"ssh.service", "1", "not the name of a lease"}, {"", "1", "not the name of a lease"},
	} {
		if err := WriteNotice(h, tt.unit, tt.until); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q at %q: got %v, want %q", tt.unit, tt.until, err, tt.want)
		}
	}
	if err := WriteNotice(h, "dcm-lease-0-00000001.scope", "1"); err != nil {
		t.Errorf("lease that has ended: got %v", err)
	}
}
