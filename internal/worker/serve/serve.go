// Package serve contains the main functions of programs that package call runs. They read one request,
// print one reply as JSON and exit. The package does not interpret requests. Of a reply it knows only
// the form of the error.
package serve

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Request returns the program's argument or, without one, standard input.
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

// Print calls reply, prints the result, and returns the exit status of the program: 1 if failed returns
// true for the result, otherwise 0. Output that a library prints meanwhile goes to standard error.
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

// keepStdout returns standard output for the reply. It redirects descriptor 1, to which a library
// prints, to standard error.
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
