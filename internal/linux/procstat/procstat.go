// Package procstat reads the fields of /proc/PID/stat, which proc_pid_stat(5) numbers.
package procstat

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Number is the number of a field, counted from 1. The first two, PID and name, are not read.
type Number int

const (
	State     Number = 3
	Terminal  Number = 7 // the device number of the controlling terminal; 0: none
	StartTime Number = 22
)

// Read returns a field of the process with this directory in /proc. It is "" if the process has ended, or
// if the kernel does not report the field.
func Read(dir string, n Number) string {
	text, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return ""
	}
	return field(string(text), n)
}

// Started returns when the process with this directory in /proc was started; the zero time if that cannot be
// read.
func Started(dir string) time.Time {
	var up unix.Timespec
	ticks, err := strconv.ParseInt(Read(dir, StartTime), 10, 64) // of 10 ms, since the boot
	if err != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &up) != nil {
		return time.Time{}
	}
	return time.Now().Add(time.Duration(ticks)*10*time.Millisecond - time.Duration(up.Nano()))
}

// Ended reports whether the process with this directory in /proc has ended: it does not exist, or it is a
// zombie, which has no open files and no memory. A process that has another thread than the first has not
// ended when the first is a zombie.
func Ended(dir string) bool {
	switch Read(dir, State) {
	case "":
		_, err := os.Stat(dir)
		return errors.Is(err, fs.ErrNotExist)
	case "Z", "X":
		const alone = 3 // links of the directory: two, and one for each thread
		var tasks unix.Stat_t
		return unix.Stat(dir+"/task", &tasks) != nil || tasks.Nlink <= alone
	}
	return false
}

// field returns a field of the text. The second field is a name in parentheses, which can contain spaces
// and parentheses.
func field(text string, n Number) string {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if at := int(n - State); at >= 0 && at < len(fields) {
		return fields[at]
	}
	return ""
}
