package sim_test

import (
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

	"dcm/internal/gpu/partition"
	"dcm/internal/testkit/sim"
	"dcm/internal/testkit/sim/simtest"
	"dcm/internal/testkit/testdeadline"
)

const first, second = partition.Address("0000:05:00.0"), partition.Address("0000:26:00.0")

func file(n *simtest.Node, a partition.Address, name string) string {
	return filepath.Join(n.Sys, "bus/pci/devices", string(a), name)
}

// write is what a shell's redirection does.
func write(name, text string) error { return os.WriteFile(name, []byte(text), 0o644) }

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

func expect(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func open(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestFUSE_WriteErrno(t *testing.T) {
	n := simtest.Start(t, "mi300x-8", sim.Options{})
	compute, memory := file(n, first, "current_compute_partition"), file(n, first, "current_memory_partition")
	for _, test := range []struct {
		file, text string
		want       error
		reads      string
	}{
		{compute, "CPX\n", nil, "CPX"},
		{compute, "TPX\n", unix.EINVAL, "CPX"},
		{compute, "", nil, "CPX"}, // truncated, not written to
		{memory, "NPS3\n", unix.EINVAL, "NPS1"},
		{memory, "NPS4\n", nil, "NPS1"},
		{file(n, first, "available_compute_partition"), "SPX", unix.EACCES, "SPX, DPX, QPX, CPX"},
		{file(n, first, "vendor"), "0x1234", unix.EACCES, "0x1002"},
		{file(n, first, "frob"), "x", unix.EACCES, ""}, // nothing can be created
	} {
		err := write(test.file, test.text)
		if test.reads == "" {
			if err == nil {
				t.Errorf("%s was created", test.file)
			}
			continue
		}
		expect(t, test.file+" "+test.text, err, test.want)
		if got := read(t, test.file); got != test.reads {
			t.Errorf("%s reads %q after %q, want %q", test.file, got, test.text, test.reads)
		}
	}
	if s := n.State(); s.ComputeWrites != 2 || s.MemoryWrites != 2 {
		t.Errorf("counted %d and %d writes, want 2 and 2", s.ComputeWrites, s.MemoryWrites)
	}
}

func TestFUSE_ShellRedirection(t *testing.T) {
	n := simtest.Start(t, "mi300x-8", sim.Options{})
	out, err := exec.Command("sh", "-c", `echo DPX > "$0" && cat "$0"`, file(n, first, "current_compute_partition")).CombinedOutput()
	if err != nil || string(out) != "DPX\n" {
		t.Errorf("got %q, %v", out, err)
	}
}

func TestFUSE_HeldUntilLastClose(t *testing.T) {
	n := simtest.Start(t, "mi300x-8", sim.Options{})
	compute := file(n, first, "current_compute_partition")
	for _, device := range []string{"kfd", "dri/renderD128", "dri/card0"} {
		f := open(t, filepath.Join(n.Dev, device))
		again, err := unix.Dup(int(f.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		if s := n.State(); len(s.Holders) != 1 || s.Holders[0].PID != os.Getpid() || s.Holders[0].Devices[0] != device {
			t.Errorf("%s is held by %v, want by %d", device, s.Holders, os.Getpid())
		}
		expect(t, device+" held", write(compute, "CPX"), unix.EBUSY)
		f.Close()
		expect(t, device+" held by a duplicate", write(compute, "CPX"), unix.EBUSY)
		unix.Close(again)
		expect(t, device+" closed", write(compute, "CPX"), nil)
		expect(t, device+" closed", write(compute, "SPX"), nil)
	}
}

// The kernel reports a last close only after close(2) returned, and of many
// closes only a few at a time.
func TestFUSE_FreeAfterClose(t *testing.T) {
	n := simtest.Start(t, "mi300x-8", sim.Options{})
	for i := range 20 {
		var held []*os.File
		for range 64 {
			held = append(held, open(t, filepath.Join(n.Dev, "kfd")))
		}
		for _, f := range held {
			f.Close()
		}
		if err := write(file(n, first, "current_compute_partition"), []string{"CPX", "SPX"}[i%2]); err != nil {
			t.Fatalf("try %d: %v", i, err)
		}
	}
}

func TestFUSE_HolderIsProcess(t *testing.T) {
	n := simtest.Start(t, "mi300x-8", sim.Options{})
	type opened struct {
		file *os.File
		err  error
	}
	results, release := make(chan opened), make(chan struct{})
	// Of two threads at the same time, one is not the process's first.
	for range 2 {
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			f, err := os.Open(filepath.Join(n.Dev, "kfd"))
			results <- opened{f, err}
			<-release
		}()
	}
	for range 2 {
		r := <-results
		expect(t, "open", r.err, nil)
		defer r.file.Close()
	}
	if got := n.State().Holders; len(got) != 1 || got[0].PID != os.Getpid() {
		t.Errorf("held by %v, want by %d alone", got, os.Getpid())
	}
	close(release)
}

func TestFUSE_KilledHolder(t *testing.T) {
	n := simtest.Start(t, "mi300x-8", sim.Options{})
	holder := exec.Command("sh", "-c", `exec 5<"$0"; echo; exec sleep 1000`, filepath.Join(n.Dev, "dri/renderD128"))
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	out.Read(make([]byte, 1))
	expect(t, "held", write(file(n, first, "current_compute_partition"), "CPX"), unix.EBUSY)
	if got := n.State().Holders; len(got) != 1 || got[0].PID != holder.Process.Pid {
		t.Errorf("held by %v, want by %d", got, holder.Process.Pid)
	}
	holder.Process.Kill()
	holder.Wait()
	expect(t, "killed", write(file(n, first, "current_compute_partition"), "CPX"), nil)
}

func TestFUSE_HangingWriter(t *testing.T) {
	n := simtest.Start(t, "mi300x-8", sim.Options{})
	if err := n.Inject(sim.Fault{Op: sim.OpCompute, GPU: first, Hang: sim.Forever}); err != nil {
		t.Fatal(err)
	}
	writer := exec.Command("sh", "-c", `echo CPX >"$0"`, file(n, first, "current_compute_partition"))
	if err := writer.Start(); err != nil {
		t.Fatal(err)
	}
	for late := testdeadline.After(10 * time.Second); n.State().ComputeWrites == 0; runtime.Gosched() {
		select {
		case <-late:
			t.Fatal("the writer never wrote")
		default:
		}
	}
	expect(t, "another GPU", write(file(n, second, "current_compute_partition"), "CPX"), nil)
	writer.Process.Kill()
	var exit *exec.ExitError
	if err := writer.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != unix.SIGKILL {
		t.Errorf("the writer ended with %v", err)
	}
	expect(t, "the same GPU", write(file(n, first, "current_compute_partition"), "CPX"), nil)
}

func TestFUSE_DriverReload(t *testing.T) {
	n := simtest.Start(t, "mi300x-8", sim.Options{})
	names := []string{
		file(n, first, "current_compute_partition"), filepath.Join(n.Dev, "kfd"), filepath.Join(n.Dev, "dri/renderD128"),
		filepath.Join(n.Sys, "module/amdgpu"), filepath.Join(n.Sys, "class/kfd/kfd/topology/nodes/2/gpu_id"),
	}
	there := func(want error) {
		t.Helper()
		for _, name := range names {
			_, err := os.Stat(name)
			expect(t, name, err, want)
		}
	}
	stale := open(t, names[0])
	there(nil)
	expect(t, "unload", n.Unload(t.Context()), nil)
	there(os.ErrNotExist)
	_, err := stale.Read(make([]byte, 8))
	expect(t, "reading a file that was open", err, unix.ENODEV)
	_, err = os.Open(names[1])
	expect(t, "opening kfd", err, os.ErrNotExist)
	expect(t, "load", n.Load(t.Context(), sim.Parameters{}), nil)
	there(nil)
}

func TestFUSE_BoundDevice(t *testing.T) {
	n := simtest.Start(t, "mi300x-8", sim.Options{})
	bound := filepath.Join(t.TempDir(), "kfd")
	if err := write(bound, ""); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(filepath.Join(n.Dev, "kfd"), bound, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(bound, unix.MNT_DETACH) })
	expect(t, "unload", n.Unload(t.Context()), nil)
	_, err := os.Stat(filepath.Join(n.Dev, "kfd"))
	expect(t, "the original", err, os.ErrNotExist)
	_, err = os.Stat(bound)
	expect(t, "the bound one", err, os.ErrNotExist)
	_, err = os.Open(bound)
	expect(t, "opening the bound one", err, os.ErrNotExist)
	expect(t, "load", n.Load(t.Context(), sim.Parameters{}), nil)
	f := open(t, bound)
	if got, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd())); got != bound {
		t.Errorf("path of the open file: got %q, %v, want %s", got, err, bound)
	}
	expect(t, "with it open", write(file(n, first, "current_compute_partition"), "CPX"), unix.EBUSY)
}

func TestFUSE_Modprobe(t *testing.T) {
	n := simtest.Start(t, "mi300x-8", sim.Options{})
	expect(t, "request", write(file(n, first, "current_memory_partition"), "NPS4"), nil)
	kfd := open(t, filepath.Join(n.Dev, "kfd"))
	out, err := exec.Command(n.Modprobe, "-r", "amdgpu").CombinedOutput()
	if err == nil || string(out) != "modprobe: FATAL: Module amdgpu is in use.\n" {
		t.Errorf("in use: got %q, %v", out, err)
	}
	kfd.Close()
	for _, args := range [][]string{{"-r", "amdgpu"}, {"-r", "amdgpu"}, {"amdgpu", "user_partt_mode=3"}, {"amdgpu"}, {"snd_hda_intel"}} {
		if out, err := exec.Command(n.Modprobe, args...).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%v: got %q, %v", args, out, err)
		}
	}
	want := partition.Mode{Compute: partition.QPX, Memory: partition.NPS4}
	if got := n.State().GPUs[7].Mode(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestFUSE_ControlFiles(t *testing.T) {
	n := simtest.Start(t, "mi300x-8", sim.Options{})
	faults := filepath.Join(n.Mount, "ctl/faults")
	expect(t, "one", write(faults, `{"op":"compute","errno":"EPERM"}`), nil)
	expect(t, "two", write(faults, `[{"op":"load","errno":"EIO"},{"op":"now","gpu":"0000:26:00.0","vanish":true}]`), nil)
	expect(t, "nonsense", write(faults, `{"op":"frob"}`), unix.EINVAL)
	if got := n.State(); len(got.Faults) != 2 || !got.GPUs[1].Vanished {
		t.Errorf("armed: %+v", got.Faults)
	}
	expect(t, "compute", write(file(n, first, "current_compute_partition"), "CPX"), unix.EPERM)
	expect(t, "clear", write(faults, "clear"), nil)
	if got := read(t, faults); got != "[]" {
		t.Errorf("after clear: %s", got)
	}
	expect(t, "reset", write(filepath.Join(n.Mount, "ctl/reset"), "1"), nil)
	if n.State().GPUs[1].Vanished {
		t.Error("after reset, a GPU is away")
	}
}

func TestFUSE_WritePermission(t *testing.T) {
	n := simtest.Start(t, "mi300x-8", sim.Options{})
	os.Chmod(filepath.Dir(filepath.Dir(n.Mount)), 0o755)
	os.Chmod(filepath.Dir(n.Mount), 0o755)
	compute := file(n, first, "current_compute_partition")
	config := file(n, first, "compute_partition_config/xcc/num_inst")
	cmd := exec.Command("sh", "-c", `cat "$0" && ! echo CPX >"$0" && ! cat "$1"`, compute, config)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "SPX\n") || strings.Count(string(out), "ermission denied") != 2 {
		t.Errorf("got %q, %v", out, err)
	}
}
