package openfiles

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

// one looks at one process.
func one(t *testing.T, s *Scan, pid int) result {
	t.Helper()
	return (&scanWorker{scan: s, ctx: t.Context(), buf: make([]byte, largeChunk)}).scanProcess(pid)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestScan_FindsHolders(t *testing.T) {
	proc, nodes := tree(t)
	s := NewScan(proc, nodes, time.Minute)
	must(t, s.ScanAll(t.Context()))
	s.Attribute(91, "/dev/x") // known already
	s.Attribute(91, "/dev/y")
	if got := fmt.Sprint(s.Holders()); got != "[{90 p90  [/dev/x] [] []  []} {91 p91  [/dev/x /dev/y] [] []  []}]" {
		t.Errorf("holders %s", got)
	}
	// The kernel cannot compare these descriptors.
	if got := s.Weight(); got != 6 || !s.Exists(90) || s.Exists(7) || !s.FoundAny() || len(s.Uninspected()) > 0 {
		t.Errorf("weight %d, unlooked %v", got, s.Uninspected())
	}
}

func TestScan_HiddenNode(t *testing.T) {
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

func TestScan_PermissionDenied(t *testing.T) {
	proc, nodes := tree(t)
	denied := filepath.Join(proc, "91/fd")
	must(t, os.Chmod(denied, 0))
	t.Cleanup(func() { must(t, os.Chmod(denied, 0o755)) }) // only root removes a directory without it
	defer unprivileged(t)()
	s := NewScan(proc, nodes, time.Minute)
	if got := one(t, s, 90); len(got.files) != 1 || got.reason != "" {
		t.Errorf("one's own process: %+v", got)
	}
	if got := one(t, s, 91); got.reason != reasonDenied {
		t.Errorf("another's: %+v", got)
	}
}

// unprivileged drops the file capabilities of this thread.
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

// A user who may open a GPU does so 20,000 times, in five processes that share each
// open file.
func TestSumWeights_ManyFiles(t *testing.T) {
	const files, processes = 20_000, 5
	var all []openFile
	for fd := range files {
		for pid := range processes {
			all = append(all, openFile{pid: pid, fd: (fd * 7919) % files, weight: 2})
		}
	}
	asked := 0
	got := sumWeights(all, func(a, b openFile) int { asked++; return a.fd - b.fd })
	if got != 2*files || asked > 50*len(all) {
		t.Errorf("weight %d after %d comparisons of %d, want %d", got, asked, len(all), 2*files)
	}
}

func TestWeight_SharedFile(t *testing.T) {
	f, err := os.Open(os.DevNull)
	must(t, err)
	defer f.Close()
	again, err := os.Open(os.DevNull)
	must(t, err)
	defer again.Close()
	copied, err := unix.Dup(int(f.Fd()))
	must(t, err)
	defer unix.Close(copied)
	var all []openFile
	for _, fd := range []int{int(f.Fd()), int(again.Fd()), copied, -1} {
		all = append(all, openFile{pid: os.Getpid(), fd: fd, weight: 1})
	}
	all = append(all, openFile{pid: 1, fd: -1, weight: 1})
	if got := sumWeights(all, compareFiles); got != 4 { // two open files, and two mappings
		t.Errorf("weight %d, want 4", got)
	}
}

func TestScan_RemovedNode(t *testing.T) {
	proc, nodes := tree(t)
	// A device of major 1 that was not added, as of a node that was removed.
	must(t, os.Symlink("/dev/full", filepath.Join(proc, "90/fd/3")))
	must(t, os.MkdirAll(filepath.Join(proc, "90/fdinfo"), 0o755))
	must(t, os.WriteFile(filepath.Join(proc, "90/fdinfo/3"), []byte("flags:\t02\ndrm-driver:\ta\n"), 0o644))
	name := func(minor uint32) string { return fmt.Sprintf("minor %d (removed)", minor) }
	for driver, want := range map[string]string{
		"a": "[{90 p90  [minor 7 (removed) /dev/x] [] []  []} {91 p91  [/dev/x] [] []  []}]",
		"b": "[{90 p90  [/dev/x] [] []  []} {91 p91  [/dev/x] [] []  []}]",
	} {
		nodes.AddRemoved(1, 2, name, func(fdinfo string) bool { return strings.HasSuffix(fdinfo, "drm-driver:\t"+driver) })
		s := NewScan(proc, nodes, time.Minute)
		must(t, s.ScanAll(t.Context()))
		if got := fmt.Sprint(s.Holders()); got != want {
			t.Errorf("driver %s: holders %s, want %s", driver, got, want)
		}
	}
}

// A process that ended after its open files were read has no name and no unit any more.
func TestScan_EndedProcess(t *testing.T) {
	for _, test := range []struct {
		name string
		end  func(t *testing.T, dir string)
		want string
	}{
		{"gone", func(t *testing.T, dir string) { must(t, os.RemoveAll(dir)) }, "[90]"},
		{"zombie", func(t *testing.T, dir string) {
			must(t, os.MkdirAll(filepath.Join(dir, "task/91"), 0o755))
			must(t, os.WriteFile(filepath.Join(dir, "stat"), []byte("91 (p91) Z 1"), 0o644))
		}, "[90]"},
		{"first thread only", func(t *testing.T, dir string) {
			must(t, os.MkdirAll(filepath.Join(dir, "task/91"), 0o755))
			must(t, os.MkdirAll(filepath.Join(dir, "task/92"), 0o755))
			must(t, os.WriteFile(filepath.Join(dir, "stat"), []byte("91 (p91) Z 1"), 0o644))
		}, "[90 91]"},
		{"another process has its PID", func(t *testing.T, dir string) {
			must(t, os.WriteFile(filepath.Join(dir, "stat"), []byte("91 (q) S 1 7 7 34816 7 4194304 11 12 13 14 15 16 17 18 20 0 1 0 5555"), 0o644))
		}, "[90]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			proc, nodes := tree(t)
			s := NewScan(proc, nodes, time.Minute)
			must(t, s.ScanAll(t.Context()))
			s.Attribute(91, "/dev/y")
			test.end(t, filepath.Join(proc, "91"))
			var pids []int
			for _, h := range s.Holders() {
				pids = append(pids, h.PID)
			}
			ended := len(pids) == 1
			if got := fmt.Sprint(pids); got != test.want || s.Exists(91) == ended || ended && s.Weight() != 3 {
				t.Errorf("holders %s of weight %d, exists %v, want %s", got, s.Weight(), s.Exists(91), test.want)
			}
		})
	}
}
