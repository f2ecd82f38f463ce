// Package serve is for programs that package call runs: they read one request, print one
// reply as JSON and exit. The package does not interpret requests; of a reply it knows only the
// form of its error.
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

// Print calls reply, prints what it returns, and returns the program's exit status: 1 if
// failed reports true of the reply. A library that prints to standard output cannot disturb
// the reply.
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

// keepStdout returns standard output for the reply, and redirects descriptor 1, to which a
// library prints, to standard error.
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
