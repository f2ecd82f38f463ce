package leaseservice

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"dcm/internal/engine/host"
	"dcm/internal/linux/procstat"
	"dcm/internal/linux/unitname"
)

// WriteNotice writes to the terminals of the processes in a lease that its time limit, in microseconds
// since 1970, ends it. The transient service of the daemon calls it. A terminal of another user is omitted.
func WriteNotice(h *host.Host, unit, until string) error {
	microseconds, err := strconv.ParseInt(until, 10, 64)
	if err != nil || microseconds <= 0 {
		return fmt.Errorf("invalid time (found %q, want a number of microseconds)", until)
	}
	lease, ok := unitname.ParseLease(unit)
	if !ok {
		return fmt.Errorf("%q is not the name of a lease", unit)
	}
	p := processes{h}
	pids, err := p.members(unit)
	if err != nil {
		return fmt.Errorf("cannot read the processes of %s: %w", unit, err)
	}
	var numbers []uint32
	for _, pid := range pids {
		if number, ok := p.terminal(pid); ok && !slices.Contains(numbers, number) {
			numbers = append(numbers, number)
		}
	}
	text := noticeText(unit, time.UnixMicro(microseconds), time.Now())
	var failed []error
	for _, number := range numbers {
		if err := writeTerminal(h.Path("dev/pts", fmt.Sprint(number)), lease.UID, text); err != nil {
			failed = append(failed, fmt.Errorf("cannot write to terminal %d: %w", number, err))
		}
	}
	return errors.Join(failed...)
}

// noticeText returns the notice for terminals, where a line may be incomplete.
func noticeText(unit string, until, now time.Time) string {
	return fmt.Sprintf("\r\ndcm: %s ends at %s, in %s, by its time limit\r\nhint: dcm lease extend %s +1h\r\n",
		unit, until.Local().Format(time.DateTime), until.Sub(now).Round(time.Second), unit)
}

// ptsMajor are the device majors of pseudo terminals (UNIX98_PTY_SLAVE_MAJOR, eight of 256 minors).
const ptsMajor, ptsMajors = 136, 8

// terminal returns the number of the pseudo terminal that controls a process, that of /dev/pts/N. ok is
// false if the process has none.
func (p processes) terminal(pid int) (number uint32, ok bool) {
	device, err := strconv.ParseInt(procstat.Read(p.host.Path("proc", strconv.Itoa(pid)), procstat.Terminal), 10, 32)
	if err != nil {
		return 0, false
	}
	major := unix.Major(uint64(uint32(device)))
	if major < ptsMajor || major >= ptsMajor+ptsMajors {
		return 0, false
	}
	return (major-ptsMajor)*256 + unix.Minor(uint64(uint32(device))), true
}

// writeTerminal writes to a terminal of the user. It does not wait for a terminal whose output is
// stopped.
func writeTerminal(path string, uid uint32, text string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.ENOENT): // a terminal of another user, or of another devpts
		return nil
	case err != nil:
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Uid != uid || st.Mode&unix.S_IFMT != unix.S_IFCHR {
		return nil
	}
	_, err = unix.Write(fd, []byte(text))
	if errors.Is(err, unix.EAGAIN) {
		return nil
	}
	return err
}
