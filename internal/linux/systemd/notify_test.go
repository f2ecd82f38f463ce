package systemd

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// manager listens as systemd does on NOTIFY_SOCKET.
func manager(t *testing.T) (*net.UnixConn, func(string) string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	env := map[string]string{"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "30000000"}
	return conn, func(key string) string { return env[key] }
}

func receive(t *testing.T, conn *net.UnixConn) string {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 8192)
	n, err := conn.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return string(buf[:n])
}

func TestNotifier(t *testing.T) {
	conn, getenv := manager(t)
	n := NewNotifier(getenv)
	for _, tt := range []struct {
		name string
		call func() error
		want string
	}{
		{"ready", n.Ready, "READY=1"},
		{"stopping", n.Stopping, "STOPPING=1"},
		{"watchdog", n.Watchdog, "WATCHDOG=1"},
		{"extend timeout", func() error { return n.ExtendTimeout(90 * time.Second) }, "EXTEND_TIMEOUT_USEC=90000000"},
		{"status", func() error { return n.Status("8 GPUs: CPX/NPS4") }, "STATUS=8 GPUs: CPX/NPS4"},
		{"status of several lines stays one assignment", func() error { return n.Status("busy\nREADY=1\r\n\x00 x\xff") }, "STATUS=busy READY=1 ? x?"},
		{"long status is cut at a rune", func() error { return n.Status(strings.Repeat("é", 2000)) },
			"STATUS=" + strings.Repeat("é", 510) + "…"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.call(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, receive(t, conn)); diff != "" {
				t.Errorf("datagram (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNotifier_AbstractSocket(t *testing.T) {
	name := "@dcm-notify-" + strconv.Itoa(os.Getpid())
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := NewNotifier(func(string) string { return name }).Ready(); err != nil {
		t.Fatal(err)
	}
	if got := receive(t, conn); got != "READY=1" {
		t.Errorf("datagram is %q", got)
	}
}

func TestReloading_MonotonicTime(t *testing.T) {
	conn, getenv := manager(t)
	before := monotonic(t)
	if err := NewNotifier(getenv).Reloading(); err != nil {
		t.Fatal(err)
	}
	var usec int64
	got := receive(t, conn)
	if _, err := fmt.Sscanf(got, "RELOADING=1\nMONOTONIC_USEC=%d", &usec); err != nil {
		t.Fatalf("datagram %q: %v", got, err)
	}
	if after := monotonic(t); usec < before || usec > after {
		t.Errorf("MONOTONIC_USEC is %d, want between %d and %d", usec, before, after)
	}
}

func monotonic(t *testing.T) int64 {
	t.Helper()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		t.Fatal(err)
	}
	return now.Nano() / 1000
}

func TestNotifier_Nil(t *testing.T) {
	n := NewNotifier(func(string) string { return "" })
	if n != nil {
		t.Fatal("a notifier without NOTIFY_SOCKET is not nil")
	}
	for _, err := range []error{n.Ready(), n.Reloading(), n.Stopping(), n.Watchdog(), n.Status("x"), n.ExtendTimeout(1)} {
		if err != nil {
			t.Error(err)
		}
	}
	if d := n.WatchdogInterval(); d != 0 {
		t.Errorf("interval is %v, want 0", d)
	}
}

func TestNotifier_MissingSocket(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "gone")
	if err := NewNotifier(func(string) string { return gone }).Ready(); err == nil {
		t.Error("no error from a socket that does not exist")
	}
}

func TestWatchdogInterval(t *testing.T) {
	self := strconv.Itoa(os.Getpid())
	for _, tt := range []struct {
		name, usec, pid string
		want            time.Duration
	}{
		{"set for this process", "30000000", self, 30 * time.Second},
		{"set without a PID", "500", "", 500 * time.Microsecond},
		{"inherited from another process", "30000000", "1", 0},
		{"not set", "", self, 0},
		{"not a number", "soon", self, 0},
		{"more than a duration holds", "18446744073709551615", self, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			env := map[string]string{"NOTIFY_SOCKET": "@x", "WATCHDOG_USEC": tt.usec, "WATCHDOG_PID": tt.pid}
			n := NewNotifier(func(key string) string { return env[key] })
			if got := n.WatchdogInterval(); got != tt.want {
				t.Errorf("interval is %v, want %v", got, tt.want)
			}
		})
	}
}
