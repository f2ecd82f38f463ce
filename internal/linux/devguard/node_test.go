package devguard_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"dcm/internal/linux/devguard"
)

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

// command returns a command that runs this test program as the process that opens devices, in a cgroup.
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
