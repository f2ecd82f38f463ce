// Package serve is the other end of package ask: a program that takes one request,
// prints one answer as JSON and ends. It does not know what is asked.
package serve

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Request is the argument, or what is on standard input if there is none.
func Request(args []string) ([]byte, error) {
	if len(args) == 1 {
		return []byte(args[0]), nil
	}
	const most = 64 << 10
	data, err := io.ReadAll(io.LimitReader(os.Stdin, most))
	if err != nil {
		return nil, fmt.Errorf("cannot read the request: %w", err)
	}
	return data, nil
}

// Print prints a reply where the library that makes it cannot, and returns the
// program's exit status: 1 for a reply that has failed.
func Print[T any](program string, reply func() T, failed func(T) bool) int {
	out, err := keepStdout()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", program, err)
		return 1
	}
	r := reply()
	if err := json.NewEncoder(out).Encode(r); err != nil {
		fmt.Fprintf(os.Stderr, "%s: cannot write the answer: %v\n", program, err)
		return 1
	}
	if failed(r) {
		return 1
	}
	return 0
}

// keepStdout keeps standard output for the answer: what the library prints goes
// to standard error.
func keepStdout() (*os.File, error) {
	fd, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("cannot keep standard output: %w", err)
	}
	if err := unix.Dup3(2, 1, 0); err != nil {
		return nil, fmt.Errorf("cannot redirect standard output: %w", err)
	}
	return os.NewFile(uintptr(fd), "answer"), nil
}
