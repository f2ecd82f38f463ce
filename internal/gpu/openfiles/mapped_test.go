package openfiles

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// apart makes this test binary the process of a container: with a /dev of its own, in
// which it maps a node and closes it.
const apart = "DCM_TEST_CONTAINER"

func TestContainerProcess(t *testing.T) {
	if os.Getenv(apart) == "" {
		return
	}
	must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	must(t, unix.Mount("none", "/dev", "tmpfs", 0, ""))
	must(t, unix.Mknod("/dev/gpu", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))))
	fd, err := unix.Open("/dev/gpu", unix.O_RDWR, 0)
	must(t, err)
	_, err = unix.Mmap(fd, 0, 4096, unix.PROT_READ, unix.MAP_PRIVATE)
	must(t, err)
	must(t, unix.Close(fd))
	fmt.Println("mapped")
	bufio.NewReader(os.Stdin).ReadString('\n')
}

// A container has nodes of its own, of which one can be mapped and closed. It is found
// with the capabilities that dcm's units have, and so is not to be asked for by way of
// /proc/PID/map_files.
func TestScanMappings_Container(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make a node, and look into another's root")
	}
	pid := container(t)
	proc, nodes := tree(t)
	number := filepath.Join(proc, "number")
	must(t, os.WriteFile(number, []byte("1:5\n"), 0o644))
	must(t, nodes.Add("gpu", number, 1))
	s := NewScan("/proc", nodes, time.Minute)
	s.withMappings = true

	restore := withOnly(t, unix.CAP_SYS_PTRACE, unix.CAP_DAC_READ_SEARCH)
	got := one(t, s, pid)
	restore()
	if len(got.files) != 1 || got.files[0].device != "/dev/gpu" || got.reason != "" {
		t.Errorf("of the container was seen %+v", got)
	}
}

func container(t *testing.T) (pid int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestContainerProcess$")
	cmd.Env = append(os.Environ(), apart+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "mapped\n" {
		t.Fatalf("the container says %q, %v", line, err)
	}
	return cmd.Process.Pid
}

// withOnly leaves this thread some capabilities of root's.
func withOnly(t *testing.T, some ...int) (restore func()) {
	t.Helper()
	runtime.LockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var all [2]unix.CapUserData
	must(t, unix.Capget(&header, &all[0]))
	less := all
	less[0].Effective, less[1].Effective = 0, 0
	for _, c := range some {
		less[c/32].Effective |= 1 << (c % 32)
	}
	must(t, unix.Capset(&header, &less[0]))
	return func() {
		must(t, unix.Capset(&header, &all[0]))
		runtime.UnlockOSThread()
	}
}
