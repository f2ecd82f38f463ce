package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"time"

	"github.com/godbus/dbus/v5"

	"dcm/internal/linux/dbusconn"
)

// The interval for conditions without an event: the state of a process, an attribute in sysfs, the output of a
// command. It grows, because each repetition takes processor time from what the script waits for.
const (
	firstPollInterval = 20 * time.Millisecond
	pollIntervalLimit = 200 * time.Millisecond
)

// awaitCommand repeats a shell script until it succeeds, and prints the output of that run. It repeats the
// script after each change of a unit or job, and after an interval. The caller sets the deadline.
func awaitCommand(ctx context.Context, script string, args []string) error {
	changes := unitChanges(ctx)
	for interval := firstPollInterval; ; interval = min(interval*3/2, pollIntervalLimit) {
		var out bytes.Buffer
		cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", script, "sh"}, args...)...)
		cmd.Stdout = &out
		err := cmd.Run()
		if err == nil {
			_, err = out.WriteTo(os.Stdout)
			return err
		}
		if !errors.As(err, new(*exec.ExitError)) {
			return err
		}
		select {
		case <-changes:
		case <-time.After(interval):
		}
	}
}

// unitChanges returns a channel that receives after systemd has changed a unit or a job.
// Without a connection to systemd, it never receives. PID 1 sends its signals to each of its
// private connections, without a subscription. It accepts no connection during a daemon-reload, so
// nothing waits for it.
func unitChanges(ctx context.Context) <-chan struct{} {
	changes := make(chan struct{}, 1)
	go func() {
		// A failed connection is no error: a caller without privileges has none.
		_, _ = dbusconn.Dial(ctx, "unix:path=/run/systemd/private", nil, dbus.WithSignalHandler(wake(changes)))
	}()
	return changes
}

type wake chan<- struct{}

// DeliverSignal ignores UnitNew and UnitRemoved: a query loads and unloads units too.
func (w wake) DeliverSignal(_, _ string, signal *dbus.Signal) {
	switch signal.Name {
	case "org.freedesktop.systemd1.Manager.UnitNew", "org.freedesktop.systemd1.Manager.UnitRemoved":
		return
	}
	select {
	case w <- struct{}{}:
	default:
	}
}
