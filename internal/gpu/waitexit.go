package gpu

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// WaitGone returns when one of the processes has ended, or with ctx's error. It
// takes one thread and no processor time. Whoever waits for all of them looks
// for holders again then: others may have come, or have closed the GPU without
// ending.
func WaitAnyExit(ctx context.Context, pids []int) error {
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("cannot wait for processes: %w", err)
	}
	watched := []unix.PollFd{{Fd: int32(wake), Events: unix.POLLIN}}
	defer func() {
		for _, w := range watched {
			unix.Close(int(w.Fd))
		}
	}()
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if errors.Is(err, unix.ESRCH) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot wait for process %d: %w", pid, err)
		}
		watched = append(watched, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	// The descriptor is closed only after a wake-up under way is over.
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(woken)
		unix.Write(wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	})
	defer func() {
		if !stop() {
			<-woken
		}
	}()
	for {
		if _, err := unix.Poll(watched, -1); err != nil && err != unix.EINTR {
			return fmt.Errorf("cannot wait for processes: %w", err)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for _, w := range watched[1:] {
			if w.Revents != 0 {
				return nil
			}
		}
	}
}
