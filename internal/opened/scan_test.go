package opened

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// tree is a /proc of two processes that have the node x of a device root open.
func tree(t *testing.T) (proc string, nodes *Nodes) {
	t.Helper()
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "dev"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "dev/x"), nil, 0o644))
	for _, pid := range []string{"90", "91"} {
		fds := filepath.Join(dir, "proc", pid, "fd")
		must(t, os.MkdirAll(fds, 0o755))
		must(t, os.Symlink(filepath.Join(dir, "dev/x"), filepath.Join(fds, "0")))
		must(t, os.WriteFile(filepath.Join(dir, "proc", pid, "comm"), fmt.Appendf(nil, "p%s\n", pid), 0o644))
	}
	for ; strings.HasPrefix(dir, os.TempDir()+"/"); dir = filepath.Dir(dir) {
		must(t, os.Chmod(dir, 0o755))
		if proc == "" {
			proc = filepath.Join(dir, "proc")
		}
	}
	nodes = NewNodes(filepath.Join(filepath.Dir(proc), "dev"))
	must(t, nodes.Add("x", "", 3))
	return proc, nodes
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestAScanFindsWhoHasANodeOpen(t *testing.T) {
	proc, nodes := tree(t)
	s := New(proc, nodes, time.Minute)
	must(t, s.All(t.Context()))
	s.Also(91, "/dev/x") // known already
	s.Also(91, "/dev/y")
	if got := fmt.Sprint(s.Holders()); got != "[{90 p90  [/dev/x] [] } {91 p91  [/dev/x /dev/y] [] }]" {
		t.Errorf("holders %s", got)
	}
	// Nobody can tell whether it is one open file.
	if got := s.Weight(); got != 6 || !s.Seen(90) || s.Seen(7) || !s.Found() || len(s.Unlooked()) > 0 {
		t.Errorf("weight %d, unlooked %v", got, s.Unlooked())
	}
}

func TestANodeThatIsNotThereIsKnownByItsNumber(t *testing.T) {
	dir := t.TempDir()
	number := filepath.Join(dir, "number")
	must(t, os.WriteFile(number, []byte("1:3\n"), 0o644))
	nodes := NewNodes(dir)
	must(t, nodes.Add("null", number, 1))
	if got := nodes.known[identity{rdev: unix.Mkdev(1, 3)}].name; got != "/dev/null" {
		t.Errorf("known as %q", got)
	}
	must(t, os.WriteFile(number, []byte("x\n"), 0o644))
	if err := nodes.Add("null", number, 1); err == nil || !strings.Contains(err.Error(), `"x", not a device number`) {
		t.Errorf("error %v", err)
	}
}

func TestAProcessThatMayNotBeLookedAtIsTold(t *testing.T) {
	proc, nodes := tree(t)
	must(t, os.Chmod(filepath.Join(proc, "91/fd"), 0))
	defer unprivileged(t)()
	s := New(proc, nodes, time.Minute)
	if got := s.process(t.Context(), 90); len(got.uses) != 1 || got.why != "" {
		t.Errorf("one's own process: %+v", got)
	}
	if got := s.process(t.Context(), 91); got.why != notAllowed {
		t.Errorf("another's: %+v", got)
	}
}

// unprivileged lets this thread look at files as somebody who is not root.
func unprivileged(t *testing.T) (restore func()) {
	t.Helper()
	if os.Getuid() != 0 {
		return func() {}
	}
	runtime.LockOSThread()
	if _, err := unix.SetfsuidRetUid(65534); err != nil {
		t.Fatal(err)
	}
	return func() {
		unix.SetfsuidRetUid(0)
		runtime.UnlockOSThread()
	}
}
