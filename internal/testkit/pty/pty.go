// Package pty opens pseudo-terminals for tests of what commands show on a terminal.
package pty

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Open opens a pseudo-terminal of that size until the test ends: its front, which the test reads and
// writes, and its back, which programs use. Without terminals it skips the test.
func Open(t testing.TB, columns, rows uint16) (front, back *os.File) {
	t.Helper()
	front, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("skipped: no terminals available: %v", err)
	}
	t.Cleanup(func() { front.Close() })
	number, err := unix.IoctlGetInt(int(front.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(front.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	back, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("skipped: cannot open a terminal: %v", err)
	}
	t.Cleanup(func() { back.Close() })
	Resize(t, front, columns, rows)
	return front, back
}

// Resize sets the size of a terminal.
func Resize(t testing.TB, front *os.File, columns, rows uint16) {
	t.Helper()
	if err := unix.IoctlSetWinsize(int(front.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows}); err != nil {
		t.Fatal(err)
	}
}

// Output runs a program in a terminal of that size until it ends, and returns what it wrote.
func Output(t testing.TB, cmd *exec.Cmd, columns, rows uint16) (string, error) {
	t.Helper()
	front, back := Open(t, columns, rows)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = back, back, back
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	back.Close() // so that the front ends with the program
	var out strings.Builder
	_, _ = io.Copy(&out, front) // ends with EIO
	return strings.ReplaceAll(out.String(), "\r\n", "\n"), cmd.Wait()
}
