package guard_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"dcm/internal/guard"
)

// Device nodes that no driver is behind: an open that the cgroups let through ends
// with ENXIO, one that they do not with EPERM.
const major = 226

var reserved = guard.Device{Major: major, Minor: 3001}

// TestMain is, told to, the process that opens devices: one path a line, or that makes
// the node itself.
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
		f, err := os.OpenFile(lines.Text(), os.O_RDWR, 0)
		if err == nil {
			f.Close()
		}
		var errno syscall.Errno
		errors.As(err, &errno)
		fmt.Println(unix.ErrnoName(errno))
	}
}

// node is a cgroup tree of the test's own with two cgroups in it, and a place for pins.
type node struct {
	t *testing.T
	guard.Guard
	dir string
}

func newNode(t *testing.T) node {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root loads device programs")
	}
	top := cgroup2(t)
	n := node{t: t, dir: t.TempDir()}
	n.Cgroups = filepath.Join(top, fmt.Sprintf("dcm-guard-%d", os.Getpid()))
	n.mkdir("")
	n.mkdir("dcm.slice")
	n.mkdir("dcm.slice/job.scope")
	n.mkdir("system.slice")
	pins := filepath.Join(n.dir, "bpf")
	if err := os.Mkdir(pins, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("bpf", pins, "bpf", 0, ""); err != nil {
		t.Skipf("no bpf file system can be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(pins, 0); err != nil {
			t.Error(err)
		}
	})
	n.Pins = filepath.Join(pins, "dcm")
	for minor := uint32(3000); minor < 3003; minor++ {
		if err := unix.Mknod(n.device(minor), unix.S_IFCHR|0o666, int(unix.Mkdev(major, minor))); err != nil {
			t.Skipf("device nodes cannot be made: %v", err)
		}
	}
	t.Cleanup(func() { n.Off() }) // it may be off; the mount goes with it
	return n
}

func cgroup2(t *testing.T) string {
	t.Helper()
	for _, dir := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		var fs unix.Statfs_t
		if err := unix.Statfs(dir, &fs); err == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC {
			return dir
		}
	}
	t.Skip("no cgroup2 file system is mounted")
	return ""
}

func (n node) mkdir(cgroup string) {
	n.t.Helper()
	dir := filepath.Join(n.Cgroups, cgroup)
	if err := os.Mkdir(dir, 0o755); err != nil {
		n.t.Skipf("cgroups cannot be made: %v", err)
	}
	n.t.Cleanup(func() {
		if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
			n.t.Error(err)
		}
	})
}

func (n node) device(minor uint32) string { return filepath.Join(n.dir, fmt.Sprint("render", minor)) }

// opens returns how opens of the three devices end in a cgroup.
func (n node) opens(cgroup string) string {
	n.t.Helper()
	return n.ask(cgroup, n.device(3000)+"\n"+n.device(3001)+"\n"+n.device(3002)+"\n")
}

// ask has a process of a cgroup do what the lines say.
func (n node) ask(cgroup, lines string) string {
	n.t.Helper()
	dir, err := os.Open(filepath.Join(n.Cgroups, cgroup))
	if err != nil {
		n.t.Fatal(err)
	}
	defer dir.Close()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "GUARD_TEST_OPENER=1")
	cmd.Stdin = strings.NewReader(lines)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	out, err := cmd.CombinedOutput()
	if err != nil {
		n.t.Fatalf("%v\n%s", err, out)
	}
	return strings.Join(strings.Fields(string(out)), " ")
}

func (n node) expect(want map[string]string) {
	n.t.Helper()
	for cgroup, opens := range want {
		if got := n.opens(cgroup); got != opens {
			n.t.Errorf("opens in %s end with %s, want %s", cgroup, got, opens)
		}
	}
}

func (n node) set(devices ...guard.Device) {
	n.t.Helper()
	if err := n.Set("dcm.slice", devices); err != nil {
		n.t.Fatal(err)
	}
}

const (
	all     = "ENXIO ENXIO ENXIO"
	guarded = "ENXIO EPERM ENXIO"
)

func TestReservedDevicesOpenBelowTheCgroupAlone(t *testing.T) {
	n := newNode(t)
	n.expect(map[string]string{"system.slice": all, "dcm.slice/job.scope": all})
	n.set(reserved)
	n.expect(map[string]string{"": guarded, "system.slice": guarded, "dcm.slice": all, "dcm.slice/job.scope": all})
	if err := unix.Access(n.device(reserved.Minor), unix.F_OK); err != nil {
		t.Errorf("systemd, which looks whether the node is there, is told: %v", err)
	}
	n.set(reserved) // the same again
	n.expect(map[string]string{"system.slice": guarded, "dcm.slice/job.scope": all})
	n.set()
	n.expect(map[string]string{"system.slice": all})
	n.set(reserved, guard.Device{Major: major, Minor: 3002})
	n.expect(map[string]string{"system.slice": "ENXIO EPERM EPERM"})
	if err := n.Off(); err != nil {
		t.Fatal(err)
	}
	n.expect(map[string]string{"system.slice": all, "dcm.slice": all})
	if n.Loaded() {
		t.Error("the guard is loaded after it was taken out")
	}
}

// A runtime gives a privileged container a node for every device of the host, and does
// not start it where it cannot.
func TestANodeOfAReservedDeviceIsMadeAndDoesNotOpen(t *testing.T) {
	n := newNode(t)
	n.set(reserved)
	own := filepath.Join(n.dir, "own")
	if got := n.ask("system.slice", "mknod "+own+"\n"+own+"\n"); got != "true EPERM" {
		t.Errorf("a node of one's own is made and opened: %s, want true EPERM", got)
	}
}

// A slice that was stopped comes back as another cgroup of the same name.
func TestARenewedCgroupIsSetAnew(t *testing.T) {
	n := newNode(t)
	n.set(reserved)
	for _, dir := range []string{"dcm.slice/job.scope", "dcm.slice"} {
		if err := os.Remove(filepath.Join(n.Cgroups, dir)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(n.Cgroups, "dcm.slice"), 0o755); err != nil {
		t.Fatal(err)
	}
	n.expect(map[string]string{"dcm.slice": guarded})
	n.set(reserved)
	n.expect(map[string]string{"dcm.slice": all, "system.slice": guarded})
}

// Whoever loads the guard may be killed between the table and the link.
func TestATableWithoutLinkIsTakenOn(t *testing.T) {
	n := newNode(t)
	n.set(reserved)
	if err := os.Remove(filepath.Join(n.Pins, "link")); err != nil {
		t.Fatal(err)
	}
	// The kernel lets go of a link in its own time, and tells nobody.
	for deadline := time.Now().Add(time.Minute); n.opens("system.slice") != all; {
		if time.Now().After(deadline) {
			t.Fatal("the program is in force without its link")
		}
	}
	if n.Loaded() {
		t.Error("the guard is said to be loaded without its link")
	}
	n.set(reserved)
	n.expect(map[string]string{"system.slice": guarded})
	got, err := n.Guarded()
	if id, _ := n.Identify("dcm.slice"); err != nil || len(got) != 1 || got[reserved] != id {
		t.Errorf("guarded are %v (%v), want %s for cgroup %d", got, err, reserved, id)
	}
}

// A container's or a locked kernel's refusal is no failure that another try would mend.
func TestWhoMayNotLoadProgramsHasNoGuard(t *testing.T) {
	n := newNode(t)
	answer := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with what it has lost
		var none [2]unix.CapUserData
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		if err := unix.Capset(&header, &none[0]); err != nil {
			answer <- err
			return
		}
		answer <- n.Set("dcm.slice", []guard.Device{reserved})
	}()
	err := <-answer
	if _, ok := errors.AsType[*guard.UnsupportedError](err); !ok || !errors.Is(err, unix.EPERM) {
		t.Errorf("without capabilities: %v", err)
	}
}

func TestWhatCannotBeGuardedIsTold(t *testing.T) {
	n := newNode(t)
	var unsupported *guard.UnsupportedError
	if err := n.Set("no.slice", nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a cgroup that is not there: %v", err)
	}
	elsewhere := guard.Guard{Cgroups: n.Cgroups, Pins: filepath.Join(t.TempDir(), "dcm")}
	if err := elsewhere.Set("dcm.slice", nil); !errors.As(err, &unsupported) || !strings.Contains(err.Error(), "not a bpf file system") {
		t.Errorf("pins outside a bpf file system: %v", err)
	}
	elsewhere = guard.Guard{Cgroups: t.TempDir(), Pins: n.Pins}
	if err := elsewhere.Set("", nil); !errors.As(err, &unsupported) || !strings.Contains(err.Error(), "not in a cgroup2") {
		t.Errorf("no cgroup2: %v", err)
	}
	if got, err := (guard.Guard{Pins: "/nonexistent"}).Guarded(); got != nil || err != nil {
		t.Errorf("without a guard: %v, %v", got, err)
	}
	if err := n.Off(); err != nil {
		t.Errorf("off without a guard: %v", err)
	}
}
