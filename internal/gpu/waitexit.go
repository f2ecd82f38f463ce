package gpu

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// WaitAnyExit returns nil when one of the processes has ended, or ctx's error. It blocks one
// thread and uses no processor time. The caller then looks for holders again: others may
// have opened or closed the GPU without ending.
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
	// The descriptor must stay open until a wake-up in progress has written to it.
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
