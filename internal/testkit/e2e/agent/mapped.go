package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapped maps a page of the file, closes the file, writes the ready file, and waits for a
// signal.
func mapped(path, ready string) error {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if _, err := unix.Mmap(fd, 0, os.Getpagesize(), unix.PROT_READ, unix.MAP_SHARED); err != nil {
		return err
	}
	if err := unix.Close(fd); err != nil {
		return err
	}
	if err := os.WriteFile(ready, []byte("mapped\n"), 0o644); err != nil {
		return err
	}
	return pause()
}

// pause waits for a signal that ends the process.
func pause() error {
	for {
		if err := unix.Pause(); err != unix.EINTR {
			return err
		}
	}
}
