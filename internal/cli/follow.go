package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"dcm/internal/account"
	"dcm/internal/daemon"
	"dcm/internal/exit"
	"dcm/internal/host"
	"dcm/internal/journal"
	"dcm/internal/report"
	"dcm/internal/unitname"
	"dcm/internal/watch"
)

// follow has the daemon look at the GPUs anew, which makes the one restart
// transaction if there is something to do, and shows the run until it is over.
// It is the same as `systemctl restart dcm`, told. The selection is written by
// choose, once systemd has been reached.
func follow(ctx context.Context, h *host.Host, con *Console, choose func() error) error {
	conn, err := h.Dial(ctx)
	if err != nil {
		return fmt.Errorf("nothing was changed: cannot ask systemd to restart %s: %w", unitname.Daemon, err)
	}
	defer conn.Close()
	if err := choose(); err != nil {
		return err
	}
	before, err := report.ReadState(h.Runtime())
	if err != nil {
		before = nil // the new daemon replaces it
	}
	if err := h.Sign(append([]string{"dcm"}, os.Args[1:]...)); err != nil {
		fmt.Fprintln(con.err, con.yellow("dcm: warning: ")+"the history of runs will not know who asked: "+err.Error())
	}
	return watchRun(ctx, h, con, func() error {
		_, err := conn.Restart(ctx, unitname.Daemon)
		return err
	}, func(view *progress, err error) error {
		if err == nil && !toldSince(h, before) {
			return looked(ctx, h, con)
		}
		return concluded(ctx, h, con, view, err)
	})
}

// toldSince reports whether the daemon that was started has written its state down.
func toldSince(h *host.Host, before *report.State) bool {
	now, err := report.ReadState(h.Runtime())
	return err == nil && now != nil && (before == nil || now.PID != before.PID) && now.Phase != report.Starting
}

// looked says how it ended where the daemon cannot, on a full file system say.
func looked(ctx context.Context, h *host.Host, con *Console) error {
	fmt.Fprintln(con.err, con.yellow("dcm: warning: ")+unitname.Daemon+" could not write "+h.Path("run/dcm", report.StateFile)+"; journalctl -u dcm tells why")
	_, d, name, err := h.Compare(ctx, fromDaemon)
	if err != nil {
		return err
	}
	if len(d.Steps) > 0 {
		return fmt.Errorf("profile %s is not on the GPUs; see journalctl -u dcm -u dcm-apply", name)
	}
	fmt.Fprintf(con.out, "Profile %s is on the GPUs.\n", name)
	return nil
}

// watchRun shows the run while begin, which has it made, has not returned, and then
// says how it ended.
func watchRun(ctx context.Context, h *host.Host, con *Console, begin func() error, end func(*progress, error) error) error {
	before, err := report.ReadRun(h.Runtime())
	if err != nil {
		before = nil // an unreadable old report is replaced by the new run
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	changed, err := watch.Files(watching, []string{h.Runtime()}, 30*time.Millisecond, journal.Log(con.err, "dcm"))
	if err != nil { // too many are watched on this host, say; the profile is selected by then
		fmt.Fprintln(con.err, con.yellow("dcm: warning: ")+"the steps will not be told: "+err.Error())
	}
	ended := make(chan error, 1)
	go func() { ended <- begin() }()
	view := newProgress(con, before)
	for {
		select {
		case <-changed:
			view.update(h)
		case err := <-ended:
			view.update(h)
			view.close()
			return end(view, err)
		}
	}
}

// concluded says how it ended, from what was left behind.
func concluded(ctx context.Context, h *host.Host, con *Console, view *progress, err error) error {
	if ctx.Err() != nil {
		return errors.New("no longer following; the run goes on, see dcm status")
	}
	state, readErr := daemonState(ctx, h)
	if err == nil {
		err = readErr
	}
	if err != nil || state == nil {
		return errors.Join(err, errors.New("see dcm status and journalctl -u dcm -u dcm-apply"))
	}
	for _, w := range state.Warnings {
		fmt.Fprintln(con.err, con.yellow("dcm: warning: ")+w)
	}
	switch state.Phase {
	case report.InSync:
		return applied(con, state, view.ran, take(ctx, h).Problems)
	case report.Idle:
		fmt.Fprintln(con.out, "No profile is selected; the GPUs are left alone.")
		return nil
	}
	return failure(state)
}

// applied tells of a success, and of what else is wrong: a GPU that is missing has no
// mode that could be another one.
func applied(con *Console, state *report.State, ran bool, problems []account.Problem) error {
	if ran {
		fmt.Fprintf(con.out, "Profile %s is on the GPUs.\n", state.Profile)
	} else {
		fmt.Fprintf(con.out, "Profile %s is on the GPUs already; nothing was restarted.\n", state.Profile)
	}
	if state.Error != nil {
		return failure(state)
	}
	for _, p := range problems {
		fmt.Fprintln(con.err, con.yellow("dcm: warning: ")+p.Text)
	}
	return nil
}

// failure is the state's error with its cure, and the exit code that goes with it.
func failure(state *report.State) error {
	if state.Config != "" {
		return exit.With(exit.Config, errors.New(state.Config))
	}
	return daemon.Failure(state)
}

// fits refuses a profile that does not exist or that these GPUs cannot have,
// before anything is written.
func fits(ctx context.Context, h *host.Host, given []string) error {
	_, _, _, err := h.Compare(ctx, fromDaemon, given...)
	if err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	return nil
}
