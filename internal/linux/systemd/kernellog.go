package systemd

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"syscall"
)

// maxRecord is below the 992 bytes of message that older kernels take in one
// write to /dev/kmsg; a longer one fails with EINVAL.
const maxRecord = 900

// KernelLog returns a function that logs to the kernel's buffer, which is where
// a generator has to log: it runs before the journal (systemd.generator(7)). Each
// line of the text becomes one record, "<3>name[pid]: line". Where the device at
// path, /dev/kmsg, does not take it, it goes to fallback.
func KernelLog(path, name string, fallback io.Writer) func(slog.Level, string) {
	return func(level slog.Level, text string) {
		prefix := fmt.Sprintf("<%d>%s[%d]: ", priority(level), name, os.Getpid())
		for line := range strings.Lines(text) {
			if line = oneLine(line, maxRecord); line == "" {
				continue
			}
			if err := record(path, prefix+line+"\n"); err != nil {
				fmt.Fprint(fallback, prefix+line+"\n")
			}
		}
	}
}

// record makes one write, which the kernel takes as one record. Without
// O_NONBLOCK the open would wait for a reader where a container has a FIFO there.
func record(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|syscall.O_NOCTTY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(text)
	return err
}

// priority maps to syslog(3)'s numbers.
func priority(level slog.Level) int {
	switch {
	case level >= slog.LevelError:
		return 3
	case level >= slog.LevelWarn:
		return 4
	case level >= slog.LevelInfo:
		return 6
	}
	return 7
}
