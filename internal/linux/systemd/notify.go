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

// maxStatus keeps a notification well below the 4096 bytes above which systemd
// drops the whole datagram (NOTIFY_BUFFER_MAX).
const maxStatus = 1024

// Notifier tells the service manager how the service is, as in sd_notify(3).
// The nil Notifier does nothing, as for a program started by hand.
type Notifier struct {
	socket   string
	watchdog time.Duration
}

// NewNotifier reads the environment that systemd gives a service: NOTIFY_SOCKET,
// WATCHDOG_USEC and WATCHDOG_PID. It returns nil where nobody listens.
func NewNotifier(getenv func(string) string) *Notifier {
	socket := getenv("NOTIFY_SOCKET")
	if socket == "" {
		return nil
	}
	return &Notifier{socket: socket, watchdog: watchdog(getenv, os.Getpid())}
}

// watchdog follows sd_watchdog_enabled(3): a WATCHDOG_PID of another process
// means that the variables were inherited and are not for this one.
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

// WatchdogInterval is the time within which systemd expects a Watchdog call, 0
// if it does not watch. sd_watchdog_enabled(3) advises to call at half of it.
func (n *Notifier) WatchdogInterval() time.Duration {
	if n == nil {
		return 0
	}
	return n.watchdog
}

// Ready says that the start or the reload is complete.
func (n *Notifier) Ready() error { return n.send("READY=1") }

// Reloading says that the configuration is being read again; Ready ends it.
// systemd takes the time to tell this reload from an earlier one.
func (n *Notifier) Reloading() error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return fmt.Errorf("cannot notify systemd: clock: %w", err)
	}
	return n.send("RELOADING=1", fmt.Sprintf("MONOTONIC_USEC=%d", now.Nano()/1000))
}

// Stopping says that the service is shutting down.
func (n *Notifier) Stopping() error { return n.send("STOPPING=1") }

// Watchdog says that the service is alive.
func (n *Notifier) Watchdog() error { return n.send("WATCHDOG=1") }

// Status sets the line that `systemctl status` shows.
func (n *Notifier) Status(text string) error { return n.send("STATUS=" + oneLine(text, maxStatus)) }

// ExtendTimeout asks for at least d, from now, before the start, the stop or the
// run is given up.
func (n *Notifier) ExtendTimeout(d time.Duration) error {
	return n.send(fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", d.Microseconds()))
}

// send goes by sendto(2) and not by net.Conn: a descriptor handed to the runtime's
// poller would wake it up for each of its steps, and the watchdog's ping is all
// that a daemon at rest does.
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
		// A name that begins with "@" is abstract: Sendto puts the zero byte there.
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

// oneLine makes text safe as a value of the protocol, in which a newline begins
// the next assignment and text that is not UTF-8 is dropped.
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
