// Command dcm-smi is the only program of dcm that loads libamd_smi. It takes one
// request, prints one answer and exits; both are JSON, see package
// dcm/internal/amdsmi. Whoever runs it gives it a deadline and kills it then.
//
//	dcm-smi [--private] [REQUEST]
//
// Without REQUEST it reads one from stdin. With --private its mount namespace is
// its own, and it mounts an empty /tmp and /dev/shm for the files that the library
// leaves there. Exit status: 0 done, 1 the answer is an error, 64 usage.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"dcm/internal/amdsmi"
)

func main() {
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	private := len(args) > 0 && args[0] == "--private"
	if private {
		args = args[1:]
	}
	if len(args) > 1 {
		fmt.Fprintln(os.Stderr, "usage: dcm-smi [--private] [REQUEST]")
		return 64
	}
	answer, err := keepStdout()
	if err != nil {
		fmt.Fprintln(os.Stderr, "dcm-smi:", err)
		return 1
	}
	reply := reply(args, private)
	if err := json.NewEncoder(answer).Encode(reply); err != nil {
		fmt.Fprintln(os.Stderr, "dcm-smi: cannot write the answer:", err)
		return 1
	}
	if reply.Error != nil {
		return 1
	}
	return 0
}

func reply(args []string, private bool) amdsmi.Reply {
	data, err := input(args)
	if err == nil {
		err = isolate(private)
	}
	if err != nil {
		return amdsmi.Reply{Error: &amdsmi.Failure{Kind: amdsmi.BadRequest, Text: err.Error()}}
	}
	request, err := amdsmi.ParseRequest(data)
	if err != nil {
		return amdsmi.Reply{Error: &amdsmi.Failure{Kind: amdsmi.BadRequest, Text: err.Error()}}
	}
	return amdsmi.Serve(request)
}

func input(args []string) ([]byte, error) {
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

// isolate takes from the library what it must not have. The library of ROCm 6
// runs systemctl and modprobe by itself, in the background, when it sets a
// memory mode: with this PATH its shell finds neither, and the driver is
// reloaded by dcm, in its turn.
func isolate(private bool) error {
	runtime.LockOSThread()
	os.Clearenv()
	if err := os.Setenv("PATH", "/nonexistent"); err != nil {
		return fmt.Errorf("cannot set PATH: %w", err)
	}
	if !private {
		return nil
	}
	return errors.Join(hide("/tmp"), hide("/dev/shm"))
}

// hide mounts an empty directory over dir, if there is a dir. In /dev/shm the
// library has mutexes that it shares with whoever uses it: killed at the wrong
// moment, it would leave them locked.
func hide(dir string) error {
	err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "size=4m,mode=1777")
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("cannot mount a private %s: %w", dir, err)
	}
	return nil
}
