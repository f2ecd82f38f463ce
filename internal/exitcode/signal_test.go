package exitcode

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"testing"
)

// statusKey has this program end with a status after SIGTERM.
const statusKey = "TEST_EXIT_STATUS"

func TestMain(m *testing.M) {
	if text := os.Getenv(statusKey); text != "" {
		status, err := strconv.Atoi(text)
		if err != nil {
			panic(err)
		}
		End(status, &SignalError{Signal: syscall.SIGTERM})
	}
	os.Exit(m.Run())
}

func TestEnd(t *testing.T) {
	for status, killed := range map[int]bool{143: true, 1: false, 0: false, 130: false} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), statusKey+"="+strconv.Itoa(status))
		err := cmd.Run()
		if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
			t.Fatal(err)
		}
		how := cmd.ProcessState.Sys().(syscall.WaitStatus)
		switch {
		case how.Signaled() != killed, killed && how.Signal() != syscall.SIGTERM, !killed && how.ExitStatus() != status:
			t.Errorf("status %d: ended with %s", status, cmd.ProcessState)
		}
	}
}

func TestNotifyContext(t *testing.T) {
	signal.Ignore(syscall.SIGUSR2)
	defer signal.Reset(syscall.SIGUSR2)
	for s, want := range map[syscall.Signal]SignalError{syscall.SIGUSR1: {syscall.SIGUSR1, false}, syscall.SIGUSR2: {syscall.SIGUSR2, true}} {
		ctx, stop := NotifyContext(t.Context(), syscall.SIGUSR1, syscall.SIGUSR2)
		if err := syscall.Kill(os.Getpid(), s); err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
		by, ok := errors.AsType[*SignalError](context.Cause(ctx))
		if !ok || *by != want || by.Status() != 128+int(s) {
			t.Errorf("the cause of %s is %+v", s, context.Cause(ctx))
		}
		stop()
		signal.Ignore(syscall.SIGUSR2) // the end of the notification has reset it
	}
}
