package service

import (
	"fmt"
	"strconv"
	"syscall"

	"dcm/internal/exitcode"
)

// HangUp requests a reload from the daemon with that process id. It is ExecReload=, so that no
// kill(1) need be installed; the daemon notifies systemd when it is done.
func HangUp(mainPID string) error {
	pid, err := strconv.Atoi(mainPID)
	if err != nil || pid <= 1 {
		return exitcode.With(exitcode.Usage, fmt.Errorf("$MAINPID: not the id of the daemon's process (found %q). hint: run systemctl reload dcm", mainPID))
	}
	if err := syscall.Kill(pid, syscall.SIGHUP); err != nil {
		return fmt.Errorf("cannot signal the daemon (process %d): %w", pid, err)
	}
	return nil
}
