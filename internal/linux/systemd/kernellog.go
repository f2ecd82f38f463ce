package systemd

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"syscall"
)

// maxRecord, in bytes, is below the 992 that older kernels accept in one write to /dev/kmsg. A
// longer write fails with EINVAL.
const maxRecord = 900

// KernelLog returns a function that logs to the kernel's ring buffer. Generators log there,
// because they run before the journal (systemd.generator(7)). Each line becomes a record,
// "<3>name[pid]: line". If the write to path, /dev/kmsg, fails, the line goes to fallback.
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

// record writes one record. Without O_NONBLOCK, the open would wait for a reader if a container
// has a FIFO at that path.
func record(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|syscall.O_NOCTTY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(text)
	return err
}

// priority returns the priority of syslog(3).
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
