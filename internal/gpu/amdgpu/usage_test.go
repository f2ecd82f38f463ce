package amdgpu

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// helper is the environment variable with which a test starts its own binary as a holder process.
const helper = "DCM_TEST_HOLDER"

// TestHolderProcess is the main function of the holder process that other tests start; without the
// variable it does nothing. It prints "ready" and exits when its standard input is closed.
func TestHolderProcess(t *testing.T) {
	how, file, _ := strings.Cut(os.Getenv(helper), " ")
	if how == "" {
		return
	}
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	switch how {
	case "thread": // with a file table of its own
		ready := make(chan error)
		go func() {
			runtime.LockOSThread()
			err := unix.Unshare(unix.CLONE_FILES)
			if err == nil {
				_, err = unix.Open(file, unix.O_RDONLY, 0)
			}
			ready <- err
			select {}
		}()
		must(<-ready)
	case "mapped":
		fd, err := unix.Open(file, unix.O_RDWR, 0)
		must(err)
		_, err = unix.Mmap(fd, 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
		must(err)
		must(unix.Close(fd))
	case "path":
		_, err := unix.Open(file, unix.O_PATH, 0)
		must(err)
	case "twice":
		fd, err := unix.Open(file, unix.O_RDONLY, 0)
		must(err)
		_, err = unix.Dup(fd)
		must(err)
	case "many":
		fd, err := unix.Open(file, unix.O_RDONLY, 0)
		must(err)
		for range 19_000 {
			if _, err := unix.Dup(fd); err != nil {
				break
			}
		}
	}
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
}

// other starts a holder process that runs until the test ends.
func other(t testing.TB, how, file string) (pid int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestHolderProcess$")
	cmd.Env = append(os.Environ(), helper+"="+how+" "+file)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%s: %q, %v", how, line, err)
	}
	return cmd.Process.Pid
}

// scanningThisMachine returns a fixture with one GPU and a use count, and a node that scans the
// processes of this machine.
func scanningThisMachine(t testing.TB, count string) (f *fixture, n node) {
	f = newFixture(t)
	f.mi300x("0000:0c:00.0", "card1")
	f.write("dev/kfd", strings.Repeat("\x00", 4096))
	if count != "" {
		f.write("sys/module/amdgpu/refcnt", count+"\n")
	}
	return f, whole(gpu.Roots{Sys: f.path("sys"), Proc: "/proc", Dev: f.path("dev")})
}

func (n node) usageOf(t *testing.T) gpu.VendorUsage {
	t.Helper()
	u, err := n.usage.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func holds(u gpu.VendorUsage, pid int) bool {
	for _, h := range u.Holders {
		if h.PID == pid {
			return true
		}
	}
	return false
}

func TestUsage_EveryWayToHold(t *testing.T) {
	for _, how := range []string{"thread", "mapped", "twice"} {
		t.Run(how, func(t *testing.T) {
			f, n := scanningThisMachine(t, "2")
			pid := other(t, how, f.path("dev/kfd"))
			u := n.usageOf(t)
			if !holds(u, pid) || u.Unexplained() != 0 || u.Unused(0) {
				t.Errorf("usage %+v, want process %d to account for all of the count", u, pid)
			}
		})
	}
}

// A file opened with O_PATH needs no permission for the device and does not open it.
func TestUsage_PathOnly(t *testing.T) {
	f, n := scanningThisMachine(t, "0")
	pid := other(t, "path", f.path("dev/kfd"))
	if u := n.usageOf(t); holds(u, pid) {
		t.Errorf("usage %+v, want process %d not to be among the holders", u, pid)
	}
}

func TestUsage_OtherNodeName(t *testing.T) {
	f := newFixture(t)
	f.devices()
	f.must(os.MkdirAll(f.path("elsewhere"), 0o755))
	f.must(os.Link(f.path("dev/kfd"), f.path("elsewhere/accelerator0")))
	f.process(90, "a", "", "/", "elsewhere/accelerator0")
	if u := whole(f.roots()).usageOf(t); !holds(u, 90) {
		t.Errorf("usage %+v, want process 90 among the holders", u)
	}
}

func TestUsage_UseCount(t *testing.T) {
	for _, test := range []struct {
		name   string
		make   func(*fixture)
		idle   int
		unseen int
		nobody bool
	}{
		{"unused", func(f *fixture) { f.write("sys/module/amdgpu/refcnt", "0\n") }, 0, 0, true},
		{"invisible user", func(f *fixture) { f.write("sys/module/amdgpu/refcnt", "2\n") }, 0, 2, false},
		{"used by a module", func(f *fixture) {
			f.write("sys/module/amdgpu/refcnt", "1\n")
			f.write("sys/module/amdgpu/holders/amdgpu_peer/initstate", "live\n")
		}, 0, 0, true},
		{"used by the text console", func(f *fixture) {
			f.write("sys/module/amdgpu/refcnt", "1\n")
			f.must(os.MkdirAll(f.path("sys/class/graphics/fb0/device/driver"), 0o755))
			f.must(os.Symlink("../../../../../module/amdgpu", f.path("sys/class/graphics/fb0/device/driver/module")))
			f.write("sys/class/vtconsole/vtcon1/name", "(M) frame buffer device\n")
			f.write("sys/class/vtconsole/vtcon1/bind", "1\n")
		}, 0, 0, true},
		{"holds itself", func(f *fixture) { f.write("sys/module/amdgpu/refcnt", "1\n") }, 1, 1, true},
		{"visible process", func(f *fixture) {
			f.write("sys/module/amdgpu/refcnt", "2\n")
			f.process(90, "a", "", "/", "dev/kfd")
		}, 0, 0, false},
		{"visible and invisible process", func(f *fixture) {
			f.write("sys/module/amdgpu/refcnt", "3\n")
			f.process(90, "a", "", "/", "dev/kfd")
		}, 0, 1, false},
		{"KFD lists a missing process", func(f *fixture) {
			f.write("sys/module/amdgpu/refcnt", "0\n")
			f.write("sys/class/kfd/kfd/proc/4711/pasid", "32771\n")
		}, 0, 0, false},
		{"no use count", func(*fixture) {}, 0, 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t)
			f.devices()
			test.make(f)
			u := whole(f.roots()).usageOf(t)
			if u.Unexplained() != test.unseen || u.Unused(test.idle) != test.nobody {
				t.Errorf("unexplained %d, unused %t of %+v; want %d, %t", u.Unexplained(), u.Unused(test.idle), u, test.unseen, test.nobody)
			}
		})
	}
}

// A process with very many open files is reported, and the scan continues with the others.
func TestUsage_TooManyFiles(t *testing.T) {
	f := newFixture(t)
	f.devices()
	var many []string
	for range 200 {
		many = append(many, "/dev/null")
	}
	f.process(80, "hog", "", "/", many...)
	f.process(90, "a", "", "/", "dev/kfd")
	found, err := whole(f.roots(), scanLimits(time.Minute, time.Nanosecond)).Holders(t.Context())
	if len(found) != 1 || found[0].PID != 90 {
		t.Errorf("holders %+v, want process 90", found)
	}
	if !errors.Is(err, gpu.ErrPartial) || !strings.Contains(err.Error(), fmt.Sprintf("hog (pid 80, user %d", os.Getuid())) || strings.Contains(Hint(err), "kernel log") || Hint(err) == "" {
		t.Errorf("error %v, hint %q; want it to name the process", err, Hint(err))
	}
}

// The inspection of a process may never return, for example for a file of a network server that is
// gone. A FIFO in the process's directory has the same effect.
func TestUsage_HangingProcess(t *testing.T) {
	f := newFixture(t)
	f.devices()
	f.process(80, "hung", "", "/")
	f.process(90, "a", "", "/", "dev/kfd")
	f.write("sys/module/amdgpu/refcnt", "3\n") // so that the scan reads the mappings
	fifo := f.path("proc/80/maps")
	f.must(unix.Mkfifo(fifo, 0o644))
	t.Cleanup(func() {
		if fd, err := unix.Open(fifo, unix.O_WRONLY|unix.O_NONBLOCK, 0); err == nil {
			unix.Close(fd)
		}
	})
	u, err := whole(f.roots(), scanLimits(time.Minute, 20*time.Millisecond)).usage.Usage(patient(t))
	if err != nil || !holds(u, 90) || len(u.Uninspected) != 1 || u.Uninspected[0].PID != 80 || u.Uninspected[0].Reason != "reading its open files hangs" {
		t.Errorf("usage %+v, %v", u, err)
	}
}

// If the caller's timeout is too short for a scan, the error does not blame the driver.
func TestUsage_Timeout(t *testing.T) {
	f := newFixture(t)
	f.devices()
	f.process(80, "a", "", "/")
	_, err := whole(f.roots(), scanLimits(0, time.Second)).Holders(t.Context())
	if !errors.Is(err, gpu.ErrPartial) || !strings.Contains(err.Error(), "a (pid 80") {
		t.Errorf("error %v", err)
	}
}

// Sixty processes with 19,000 open files each: what one user may have.
func BenchmarkHoldersAmongAMillionFiles(b *testing.B) {
	f, n := scanningThisMachine(b, "0")
	for range 60 {
		other(b, "many", filepath.Join(f.dir, "dev"))
	}
	for b.Loop() {
		u, err := n.usage.Usage(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(len(u.Uninspected)), "uninspected")
	}
}

func TestWaitUsage(t *testing.T) {
	f := newFixture(t)
	f.devices()
	f.write("sys/module/amdgpu/refcnt", "2\n")
	unexplainedUse := make(chan int, 10)
	done := make(chan error)
	go func() {
		done <- f.open().all.WaitUsage(patient(t), func(u gpu.Usage) bool {
			unexplained := u.ForVendor(partition.AMD).Unexplained()
			unexplainedUse <- unexplained
			return unexplained < 2
		})
	}()
	if got := <-unexplainedUse; got != 2 {
		t.Errorf("unexplained use after the first read: %d, want 2", got)
	}
	f.must(os.WriteFile(f.path("refcnt"), []byte("1\n"), 0o644))
	f.must(os.Rename(f.path("refcnt"), f.path("sys/module/amdgpu/refcnt")))
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := <-unexplainedUse; got != 1 || len(unexplainedUse) > 0 {
		t.Errorf("unexplained use after the second read: %d, want 1; %d more reads", got, len(unexplainedUse))
	}
}
