package devguard_test

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

// open opens the node until its input ends. After each line of input it opens the node once more and
// writes a line. At the end it writes how many opens succeeded and were denied.
func open(lines *bufio.Scanner, path string) {
	asked := make(chan bool)
	go func() {
		for lines.Scan() {
			asked <- true
		}
		close(asked)
	}()
	var opened, denied int
	try := func() {
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
		switch err {
		case nil:
			unix.Close(fd)
			opened++
		case unix.EPERM:
			denied++
		default: // ENXIO: permitted
			opened++
		}
	}
	for {
		try()
		select {
		case _, more := <-asked:
			if !more {
				fmt.Println(opened, denied)
				return
			}
			try()
			fmt.Println("opened")
		default:
		}
	}
}

// opener starts a process in a cgroup that opens a node in a loop. next returns after one more
// open; stop returns how many opens succeeded and were denied.
func (n node) opener(cgroup, path string) (next func(), stop func() (opened, denied int)) {
	n.t.Helper()
	cmd := n.command(cgroup)
	in, err := cmd.StdinPipe()
	if err != nil {
		n.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		n.t.Fatal(err)
	}
	answers := bufio.NewScanner(out)
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	fmt.Fprintf(in, "loop %s\n", path)
	next = func() {
		fmt.Fprintln(in)
		answers.Scan()
	}
	next()
	return next, func() (opened, denied int) {
		in.Close()
		answers.Scan()
		if _, err := fmt.Sscan(answers.Text(), &opened, &denied); err != nil {
			n.t.Errorf("the opener says %q: %v", answers.Text(), err)
		}
		if err := cmd.Wait(); err != nil {
			n.t.Error(err)
		}
		return opened, denied
	}
}

// node is a cgroup tree of the test with two cgroups, and a directory for pins.
type node struct {
	t *testing.T
	devguard.Guard
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
	n.mkdir("dcm.slice/other.scope")
	n.mkdir("observers.slice")
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
	t.Cleanup(func() { n.Off() }) // may be off already; the mount ends with the test
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

// opens returns the results of opening the three devices in a cgroup.
func (n node) opens(cgroup string) string {
	n.t.Helper()
	return n.ask(cgroup, n.device(3000)+"\n"+n.device(3001)+"\n"+n.device(3002)+"\n")
}

// ask starts a process in a cgroup that executes the lines.
func (n node) ask(cgroup, lines string) string {
	n.t.Helper()
	cmd := n.command(cgroup)
	cmd.Stdin = strings.NewReader(lines)
	out, err := cmd.CombinedOutput()
	if err != nil {
		n.t.Fatalf("%v\n%s", err, out)
	}
	return strings.Join(strings.Fields(string(out)), " ")
}

// command is this program as the opener, in a cgroup.
func (n node) command(cgroup string) *exec.Cmd {
	n.t.Helper()
	dir, err := os.Open(filepath.Join(n.Cgroups, cgroup))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { dir.Close() })
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "GUARD_TEST_OPENER=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	return cmd
}

func (n node) expect(want map[string]string) {
	n.t.Helper()
	for cgroup, opens := range want {
		if got := n.opens(cgroup); got != opens {
			n.t.Errorf("opens in %s end with %s, want %s", cgroup, got, opens)
		}
	}
}

// set permits each device below its cgroups, and all devices below observers.slice.
func (n node) set(devices map[uint32][]string) {
	n.t.Helper()
	if err := n.Set(n.access(devices)); err != nil {
		n.t.Fatal(err)
	}
}

func (n node) access(devices map[uint32][]string) devguard.Access {
	n.t.Helper()
	a := devguard.Access{Devices: make(map[devguard.Device][]uint64), All: []uint64{n.number("observers.slice")}}
	for minor, cgroups := range devices {
		d := devguard.Device{Major: major, Minor: minor}
		a.Devices[d] = nil
		for _, cgroup := range cgroups {
			a.Devices[d] = append(a.Devices[d], n.number(cgroup))
		}
	}
	return a
}

func (n node) number(cgroup string) uint64 {
	n.t.Helper()
	id, err := n.Identify(cgroup)
	if err != nil {
		n.t.Fatal(err)
	}
	return id
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

// In a container, or under kernel lockdown, another try does not help.
func TestSet_NotPermitted(t *testing.T) {
	n := newNode(t)
	answer := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its lost capabilities
		var none [2]unix.CapUserData
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		if err := unix.Capset(&header, &none[0]); err != nil {
			answer <- err
			return
		}
		answer <- n.Set(n.access(one()))
	}()
	err := <-answer
	if _, ok := errors.AsType[*devguard.UnsupportedError](err); !ok || !errors.Is(err, unix.EPERM) {
		t.Errorf("without capabilities: %v", err)
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
