package systemd

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// maxStatus, in bytes, keeps notifications below 4096, above which systemd drops the datagram
// (NOTIFY_BUFFER_MAX).
const maxStatus = 1024

// Notifier sends the state of the service to the service manager, as sd_notify(3) does. A nil
// Notifier does nothing.
type Notifier struct {
	socket   string
	watchdog time.Duration
}

// NewNotifier reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, which systemd sets for a
// service. It returns nil without NOTIFY_SOCKET.
func NewNotifier(getenv func(string) string) *Notifier {
	socket := getenv("NOTIFY_SOCKET")
	if socket == "" {
		return nil
	}
	return &Notifier{socket: socket, watchdog: watchdog(getenv, os.Getpid())}
}

// watchdog follows sd_watchdog_enabled(3): with a WATCHDOG_PID of another process, the variables
// are inherited and not for this process.
func watchdog(getenv func(string) string, pid int) time.Duration {
	if p := getenv("WATCHDOG_PID"); p != "" && p != strconv.Itoa(pid) {
		return 0
	}
	usec, err := strconv.ParseUint(getenv("WATCHDOG_USEC"), 10, 53)
	if err != nil {
		return 0
	}
	return time.Duration(usec) * time.Microsecond
}

// WatchdogInterval returns the time within which systemd expects a Watchdog call, 0 without a
// watchdog. sd_watchdog_enabled(3) recommends half of it between calls.
func (n *Notifier) WatchdogInterval() time.Duration {
	if n == nil {
		return 0
	}
	return n.watchdog
}

// Ready reports that the start or the reload is complete.
func (n *Notifier) Ready() error { return n.send("READY=1") }

// Reloading reports that a reload begins; Ready ends it. systemd uses the time to distinguish
// reloads.
func (n *Notifier) Reloading() error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return fmt.Errorf("cannot notify systemd: clock: %w", err)
	}
	return n.send("RELOADING=1", fmt.Sprintf("MONOTONIC_USEC=%d", now.Nano()/1000))
}

// Stopping reports that the service is shutting down.
func (n *Notifier) Stopping() error { return n.send("STOPPING=1") }

// Watchdog reports that the service is alive.
func (n *Notifier) Watchdog() error { return n.send("WATCHDOG=1") }

// Status sets the line that `systemctl status` shows.
func (n *Notifier) Status(text string) error { return n.send("STATUS=" + oneLine(text, maxStatus)) }

// ExtendTimeout extends the timeout of the start, the stop or the run to at least d from now.
func (n *Notifier) ExtendTimeout(d time.Duration) error {
	return n.send(fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", d.Microseconds()))
}

// send uses sendto(2), because net.Conn registers the descriptor with the runtime's poller, which
// wakes up threads. The watchdog's notification is the only work of an idle daemon.
func (n *Notifier) send(lines ...string) error {
	if n == nil {
		return nil
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("cannot notify systemd: %w", err)
	}
	defer unix.Close(fd)
	text := []byte(strings.Join(lines, "\n"))
	for {
		// A name that begins with "@" is abstract; Sendto handles it.
		err = unix.Sendto(fd, text, unix.MSG_NOSIGNAL, &unix.SockaddrUnix{Name: n.socket})
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("cannot notify systemd at %s: %w", n.socket, err)
	}
	return nil
}

// oneLine makes text a valid value of the protocol: a newline begins the next assignment, and
// systemd drops text that is not UTF-8.
func oneLine(text string, limit int) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	text = strings.ReplaceAll(text, "\x00", "?")
	if len(text) <= limit {
		return text
	}
	cut := limit - len("…")
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
