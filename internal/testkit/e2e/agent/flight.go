package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// flight sends an open file over a socket from which no process receives it, and closes it.
// Then it writes the ready file and waits for a signal.
func flight(path, ready string) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(fd), nil, 0); err != nil {
		return err
	}
	if err := unix.Close(fd); err != nil {
		return err
	}
	if err := os.WriteFile(ready, []byte("in flight\n"), 0o644); err != nil {
		return err
	}
	return pause()
}
