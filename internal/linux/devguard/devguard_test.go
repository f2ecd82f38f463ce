package devguard_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"dcm/internal/linux/devguard"
)

// Device nodes without a driver: an open that the guard permits fails with ENXIO, a denied one with
// EPERM.
const major = 226

var reserved = devguard.Device{Major: major, Minor: 3001}

// TestMain runs as the process that opens devices, one path a line, or creates nodes.
func TestMain(m *testing.M) {
	if os.Getenv("GUARD_TEST_OPENER") == "" {
		os.Exit(m.Run())
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if path, own := strings.CutPrefix(lines.Text(), "mknod "); own {
			err := unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(major, reserved.Minor)))
			errno, _ := err.(syscall.Errno)
			fmt.Println(errno == 0)
			continue
		}
		if path, loop := strings.CutPrefix(lines.Text(), "loop "); loop {
			open(lines, path)
			return
		}
		f, err := os.OpenFile(lines.Text(), os.O_RDWR, 0)
		if err == nil {
			f.Close()
		}
		var errno syscall.Errno
		errors.As(err, &errno)
		fmt.Println(unix.ErrnoName(errno))
	}
}

const (
	all     = "ENXIO ENXIO ENXIO"
	guarded = "ENXIO EPERM ENXIO"
)

// one is the table of most tests.
func one() map[uint32][]string { return map[uint32][]string{reserved.Minor: {"dcm.slice"}} }

func TestSet_OnlyBelowTheCgroups(t *testing.T) {
	n := newNode(t)
	n.expect(map[string]string{"system.slice": all, "dcm.slice/job.scope": all})
	n.set(one())
	n.expect(map[string]string{"": guarded, "system.slice": guarded, "dcm.slice": all, "dcm.slice/job.scope": all, "observers.slice": all})
	if err := unix.Access(n.device(reserved.Minor), unix.F_OK); err != nil {
		t.Errorf("access(2) for existence, as systemd does: %v", err)
	}
	n.set(one()) // the same again
	n.expect(map[string]string{"system.slice": guarded, "dcm.slice/job.scope": all})
	n.set(nil)
	n.expect(map[string]string{"system.slice": all})
	n.set(map[uint32][]string{3001: {"dcm.slice/job.scope"}, 3002: {"dcm.slice/other.scope", "system.slice"}, 3000: nil})
	n.expect(map[string]string{
		"dcm.slice": "EPERM EPERM EPERM", "dcm.slice/job.scope": "EPERM ENXIO EPERM", "dcm.slice/other.scope": "EPERM EPERM ENXIO",
		"system.slice": "EPERM EPERM ENXIO", "observers.slice": all,
	})
	if err := n.Off(); err != nil {
		t.Fatal(err)
	}
	n.expect(map[string]string{"system.slice": all, "dcm.slice": all})
	if n.Loaded() {
		t.Error("the guard is loaded after Off")
	}
}

// A process that opens a device in a loop never succeeds while the table changes from one holder to
// another, as in a run.
func TestSet_GuardedThroughout(t *testing.T) {
	n := newNode(t)
	tables := []map[uint32][]string{
		{reserved.Minor: {"dcm.slice/job.scope"}, 3000: {"dcm.slice"}},
		{reserved.Minor: {"dcm.slice/other.scope"}},
		{reserved.Minor: nil, 3002: {"dcm.slice"}},
	}
	n.set(tables[0])
	next, stop := n.opener("system.slice", n.device(reserved.Minor))
	for i := range 300 {
		n.set(tables[i%len(tables)])
		if i%30 == 0 {
			next()
		}
	}
	if opened, denied := stop(); opened > 0 || denied == 0 {
		t.Errorf("while the table changed, %d opens succeeded and %d were denied", opened, denied)
	}
}

// The next Set deletes the entries that a killed one has left.
func TestSet_DeletesOldEntries(t *testing.T) {
	n := newNode(t)
	n.set(map[uint32][]string{reserved.Minor: {"dcm.slice/job.scope", "system.slice"}, 3000: {"dcm.slice"}})
	n.set(one())
	got, err := n.Table()
	if diff := cmp.Diff(n.access(one()), got); diff != "" || err != nil {
		t.Errorf("the table (-want +got), %v:\n%s", err, diff)
	}
	n.expect(map[string]string{"system.slice": guarded, "dcm.slice/job.scope": all})
}

// A container runtime creates a node for every device of the host in a privileged container, and
// does not start it if that fails.
func TestGuard_PermitsMknod(t *testing.T) {
	n := newNode(t)
	n.set(one())
	own := filepath.Join(n.dir, "own")
	if got := n.ask("system.slice", "mknod "+own+"\n"+own+"\n"); got != "true EPERM" {
		t.Errorf("mknod and open: %s, want true EPERM", got)
	}
}

// After a stop and a start, a slice has another cgroup of the same name.
func TestSet_RecreatedCgroup(t *testing.T) {
	n := newNode(t)
	n.set(one())
	for _, dir := range []string{"dcm.slice/other.scope", "dcm.slice/job.scope", "dcm.slice"} {
		if err := os.Remove(filepath.Join(n.Cgroups, dir)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(n.Cgroups, "dcm.slice"), 0o755); err != nil {
		t.Fatal(err)
	}
	n.expect(map[string]string{"dcm.slice": guarded})
	n.set(one())
	n.expect(map[string]string{"dcm.slice": all, "system.slice": guarded})
}

// The process that loads the guard may be killed between the table and the link.
func TestSet_TableWithoutLink(t *testing.T) {
	n := newNode(t)
	n.set(one())
	if err := os.Remove(filepath.Join(n.Pins, "program")); err != nil {
		t.Fatal(err)
	}
	// The kernel frees a link asynchronously, without an event.
	for deadline := time.Now().Add(time.Minute); n.opens("system.slice") != all; {
		if time.Now().After(deadline) {
			t.Fatal("the program still runs without its link")
		}
	}
	if n.Loaded() {
		t.Error("Loaded reports true without the link")
	}
	n.set(one())
	n.expect(map[string]string{"system.slice": guarded})
}

// confined calls f in a thread of its own, which ends afterwards, after another function that confines the thread.
func confined(confine, f func() error) error {
	answer := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked
		if err := confine(); err != nil {
			answer <- err
			return
		}
		answer <- f()
	}()
	return <-answer
}

func loseCapabilities() error {
	var none [2]unix.CapUserData
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	return unix.Capset(&header, &none[0])
}

// refuseBPF makes each bpf(2) fail with EPERM, as the seccomp filters of containers do.
func refuseBPF() error {
	code := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_BPF},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	filter := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&filter)), 0, 0)
}

// A container refuses each bpf(2), also for a path that does not exist: without pins there is nothing to unload.
func TestOff_NotPermitted(t *testing.T) {
	g := devguard.Guard{Pins: filepath.Join(t.TempDir(), "dcm")}
	if err := confined(refuseBPF, g.Off); err != nil {
		t.Errorf("unload: %v", err)
	}
	if err := confined(refuseBPF, func() error { _, err := g.Table(); return err }); err != nil {
		t.Errorf("table: %v", err)
	}
}

// In a container, or under kernel lockdown, another try does not help.
func TestSet_NotPermitted(t *testing.T) {
	n := newNode(t)
	for name, confine := range map[string]func() error{"without capabilities": loseCapabilities, "without bpf(2)": refuseBPF} {
		err := confined(confine, func() error { return n.Set(n.access(one())) })
		if _, ok := errors.AsType[*devguard.UnsupportedError](err); !ok || !errors.Is(err, unix.EPERM) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestGuard_Errors(t *testing.T) {
	n := newNode(t)
	var unsupported *devguard.UnsupportedError
	if _, err := n.Identify("no.slice"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a cgroup that does not exist: %v", err)
	}
	elsewhere := devguard.Guard{Cgroups: n.Cgroups, Pins: filepath.Join(t.TempDir(), "dcm")}
	if err := elsewhere.Set(devguard.Access{}); !errors.As(err, &unsupported) || !strings.Contains(err.Error(), "not a bpf file system") {
		t.Errorf("pins outside a bpf file system: %v", err)
	}
	elsewhere = devguard.Guard{Cgroups: t.TempDir(), Pins: n.Pins}
	if _, err := elsewhere.Identify(""); !errors.As(err, &unsupported) || !strings.Contains(err.Error(), "not in a cgroup2") {
		t.Errorf("no cgroup2: %v", err)
	}
	if got, err := (devguard.Guard{Pins: "/nonexistent"}).Table(); len(got.Devices)+len(got.All) != 0 || err != nil {
		t.Errorf("without a guard: %v, %v", got, err)
	}
	if err := n.Off(); err != nil {
		t.Errorf("off without a guard: %v", err)
	}
}
