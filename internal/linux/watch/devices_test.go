package watch

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// kernel is a network namespace of the test, with a socket by which root makes the kernel send
// device events (uevent_net_rcv_skb).
type kernel struct {
	t  *testing.T
	fd int
}

// newKernel moves the test's thread to the namespace; the thread is not used after
// the test.
func newKernel(t *testing.T) kernel {
	t.Helper()
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skipf("skipped: a network namespace of its own needs root: %v", err)
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return kernel{t, fd}
}

func (k kernel) send(payload []byte) {
	k.t.Helper()
	m := binary.NativeEndian.AppendUint32(nil, uint32(unix.NLMSG_HDRLEN+len(payload)))
	m = binary.NativeEndian.AppendUint16(m, unix.NLMSG_MIN_TYPE)
	m = binary.NativeEndian.AppendUint16(m, unix.NLM_F_REQUEST)
	m = append(append(m, make([]byte, 8)...), payload...)
	if err := unix.Sendto(k.fd, m, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		k.t.Fatal(err)
	}
}

func (k kernel) tell(action, path, subsystem string) {
	k.t.Helper()
	k.send(message(action+"@"+path, "ACTION="+action, "DEVPATH="+path, "SUBSYSTEM="+subsystem))
}

// devices starts Devices in the calling thread's network namespace.
func devices(t *testing.T, in Interest, quiet time.Duration) <-chan struct{} {
	t.Helper()
	if in.About == nil {
		in.About = func(u Uevent) bool { return u.Subsystem == "pci" }
	}
	if in.Files == nil {
		in.Files = func() []string { return nil }
	}
	ch, err := new(Set).Devices(t.Context(), in, quiet, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range ch {
		}
	})
	return ch
}

func TestDevices_KernelEvents(t *testing.T) {
	k := newKernel(t)
	ch := devices(t, Interest{}, time.Millisecond)
	for _, action := range []string{"add", "remove", "bind", "unbind", "change", "move"} {
		k.tell(action, "/devices/pci0000:00/0000:05:00.0", "pci")
		wait(t, ch)
	}
}

// Each of the messages reaches the socket before the last, which alone signals.
func TestDevices_OtherMessages(t *testing.T) {
	k := newKernel(t)
	seen := make(chan Uevent, 100)
	ch := devices(t, Interest{About: func(u Uevent) bool { seen <- u; return u.Action == "bind" }}, time.Millisecond)
	for _, action := range []string{"add", "remove", "bind", "unbind", "change", "move"} {
		k.tell(action, "/devices/virtual/bdi/0:39", "bdi")
	}
	k.send([]byte("libudev\x00\xfe\xed\xca\xfe and what follows"))
	k.tell("add", "/devices/pci0000:00/0000:00:03.0/nvme/nvme0", "nvme")
	k.tell("bind", "/devices/pci0000:00/0000:05:00.0", "pci")
	wait(t, ch)
	if first, second := <-seen, <-seen; first.Subsystem != "nvme" || second.Action != "bind" || len(seen) > 0 {
		t.Errorf("events %+v, %+v and %d more, want only the nvme and the bind", first, second, len(seen))
	}
}

// Messages of a process to the socket's own port arrive, and are ignored.
func TestDevices_OtherSenders(t *testing.T) {
	k := newKernel(t)
	seen := make(chan Uevent, 100)
	ch := devices(t, Interest{About: func(u Uevent) bool { seen <- u; return true }}, time.Millisecond)
	forged := message("bind@/devices/pci0000:00/forged", "SUBSYSTEM=pci")
	// The first socket of a process gets its pid as its port.
	for _, to := range []*unix.SockaddrNetlink{{Pid: uint32(os.Getpid())}, {Groups: kernelGroup}} {
		to.Family = unix.AF_NETLINK
		if err := unix.Sendto(k.fd, forged, 0, to); err != nil {
			t.Logf("the kernel refuses it: %v", err)
		}
	}
	k.tell("bind", "/devices/pci0000:00/0000:05:00.0", "pci")
	wait(t, ch)
	if u := <-seen; u.Path != "/devices/pci0000:00/0000:05:00.0" {
		t.Errorf("accepted %+v", u)
	}
}

func TestDevices_Overflow(t *testing.T) {
	k := newKernel(t)
	held := make(chan struct{})
	ch := devices(t, Interest{About: func(Uevent) bool { <-held; return false }}, time.Millisecond)
	for i := range 20000 {
		k.tell("change", fmt.Sprintf("/devices/pci0000:00/%d", i), "pci")
	}
	close(held)
	wait(t, ch)
}

func TestDevices_WritesToNewFiles(t *testing.T) {
	k := newKernel(t)
	file := filepath.Join(t.TempDir(), "current_compute_partition")
	write := func() {
		t.Helper()
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString("CPX\n"); err != nil {
			t.Fatal(err)
		}
	}
	ch := devices(t, Interest{Files: func() []string { return []string{file} }}, time.Millisecond)
	for range 3 { // the driver is loaded, used, and unloaded
		write()
		k.tell("bind", "/devices/pci0000:00/0000:05:00.0", "pci")
		wait(t, ch)
		write()
		wait(t, ch)
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
}

// The bubble's clock advances only while all goroutines wait, so load has no effect.
func TestDevices_Coalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		changed, signalled := make(chan struct{}), make(chan time.Duration, 100)
		began := time.Now()
		go coalesce(t.Context(), debounce{quiet: 50 * time.Millisecond}, changed, func() { signalled <- time.Since(began) })
		for range 800 {
			changed <- struct{}{}
			<-time.After(time.Millisecond)
		}
		<-time.After(time.Minute)
		if n := len(signalled); n != 2 {
			t.Fatalf("%d signals for continuous events of 0.8 s, want 2", n)
		}
		if d := <-signalled; d < 500*time.Millisecond || d > 510*time.Millisecond {
			t.Errorf("the first signal came after %s, want it after 10 times the quiet time", d)
		}
	})
}

func TestDevices_ContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ch, err := new(Set).Devices(ctx, Interest{About: func(Uevent) bool { return true }, Files: func() []string { return nil }}, time.Millisecond, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	for range ch { // until it is closed
	}
}

func TestDevices_FileNoLongerListed(t *testing.T) {
	w := new(writes)
	if err := w.open(); err != nil {
		t.Fatal(err)
	}
	defer w.file.Close()
	file := filepath.Join(t.TempDir(), "current_compute_partition")
	if err := os.WriteFile(file, []byte("SPX\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, paths := range [][]string{{file}, {file}, nil} {
		if err := w.arm(paths); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(file, []byte("CPX\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	n, err := w.file.Read(buf) // at least IN_IGNORED for the removed watch
	if err != nil || written(buf[:n]) {
		t.Errorf("unexpected event: %v, % x", err, buf[:n])
	}
}

// In a container without the kernel's events, a driver may be loaded without a signal.
func TestRearm_NewFiles(t *testing.T) {
	newKernel(t)
	s := new(Set)
	file := filepath.Join(t.TempDir(), "current_compute_partition")
	in := Interest{About: func(Uevent) bool { return false }, Files: func() []string { return []string{file} }}
	ch, err := s.Devices(t.Context(), in, time.Millisecond, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range ch {
		}
	})
	if err := os.WriteFile(file, []byte("SPX\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.Rearm()
	if err := os.WriteFile(file, []byte("CPX\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	wait(t, ch)
}
