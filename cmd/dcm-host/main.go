// Command dcm-host runs in dcm's container image, on a host without a package manager. It
// copies the files that PID 1 needs, reloads PID 1, starts the daemon, and stops the daemon
// when the container stops. See "HOSTS WITHOUT A PACKAGE" in dcm.service(8).
//
//	dcm-host         install, and run the daemon until this program ends
//	dcm-host remove  release the clients and uninstall
//
// Exit status: 0 success; 1 failure; 64 usage.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"dcm/internal/app/hostimage"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// host is the mount point of the host's root in the container.
const host = "/host"

// reloadTimeout is how long PID 1 may take: it runs every generator.
const reloadTimeout = 2 * time.Minute

func main() {
	remove := len(os.Args) == 2 && os.Args[1] == "remove"
	if len(os.Args) > 1 && !remove {
		fmt.Fprintln(os.Stderr, "usage: dcm-host [remove]; dcm's image runs it, see dcm.service(8)")
		os.Exit(64)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, remove); err != nil {
		fmt.Fprintln(os.Stderr, "dcm-host:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, remove bool) error {
	cargo, err := hostimage.Load(os.DirFS("/"))
	if err != nil {
		return err
	}
	if _, err := os.Stat(host + "/run/systemd/private"); err != nil {
		return fmt.Errorf("the host's root with its systemd is not at %s, run the container with --volume=/:%s:rslave: %w", host, host, err)
	}
	if hostimage.HasPackage(host) {
		return errors.New("dcm's package is installed on the host. hint: remove the package, or this container")
	}
	// After this, paths are those of the host.
	if err := errors.Join(unix.Chroot(host), os.Chdir("/")); err != nil {
		return fmt.Errorf("cannot enter the host's root: %w", err)
	}
	if remove {
		return lift(ctx, cargo)
	}
	return keep(ctx,
		func(ctx context.Context) error { return lay(ctx, cargo) },
		func(ctx context.Context) error {
			return order(ctx, func(ctx context.Context, pid1 *systemd.Conn) error { return pid1.Jobs.Stop(ctx, unitname.Daemon) })
		})
}

// keep runs the daemon until ctx ends. PID 1 completes a start job whose caller has gone, so
// keep also stops the daemon after an interrupted start.
func keep(ctx context.Context, start, stop func(context.Context) error) error {
	err := start(ctx)
	switch {
	case err == nil:
		fmt.Fprintln(os.Stderr, "dcm-host: dcm.service runs; for its journal run on the host: journalctl -u dcm -u dcm-apply")
		<-ctx.Done()
	case ctx.Err() == nil:
		return err
	case errors.Is(err, context.Canceled):
		err = nil
	}
	return errors.Join(err, stop(context.Background()))
}

// order calls what with a connection to PID 1, for calls that return immediately.
func order(ctx context.Context, what func(context.Context, *systemd.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, reloadTimeout)
	defer cancel()
	pid1, err := systemd.Dial(ctx)
	if err != nil {
		return err
	}
	defer pid1.Close()
	return what(ctx, pid1)
}

// lay installs the files and starts the daemon. It ignores whether the GPUs can have the
// profile, which dcm.service reports.
func lay(ctx context.Context, cargo hostimage.Image) error {
	if err := cargo.Install("/"); err != nil {
		return err
	}
	return order(ctx, func(ctx context.Context, pid1 *systemd.Conn) error {
		if err := pid1.Manager.Reload(ctx); err != nil {
			return err
		}
		// A running daemon may be an older one.
		if err := pid1.Jobs.Stop(ctx, unitname.Daemon); err != nil {
			return err
		}
		if _, err := pid1.Units.Settle(ctx, []string{unitname.Daemon}, systemd.Unit.Settled); err != nil {
			return err
		}
		return pid1.Jobs.Start(ctx, unitname.Daemon)
	})
}

// lift releases the clients, then stops the units that they depend on.
func lift(ctx context.Context, cargo hostimage.Image) error {
	return order(ctx, func(ctx context.Context, pid1 *systemd.Conn) error {
		if err := pid1.Jobs.Stop(ctx, unitname.Daemon); err != nil {
			return err
		}
		if err := hostimage.RemoveGenerator("/"); err != nil {
			return err
		}
		if err := pid1.Manager.Reload(ctx); err != nil {
			return err
		}
		units := []string{unitname.AgentSocket, unitname.Agent, unitname.Reserve, unitname.Apply}
		for _, unit := range units {
			if err := pid1.Jobs.Stop(ctx, unit); err != nil {
				return err
			}
		}
		if _, err := pid1.Units.Settle(ctx, append(units, unitname.Daemon), systemd.Unit.Settled); err != nil {
			return err
		}
		if err := cargo.Remove("/"); err != nil {
			return err
		}
		return pid1.Manager.Reload(ctx)
	})
}
