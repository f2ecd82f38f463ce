package change

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"dcm/internal/app/cli/client"
	"dcm/internal/app/cli/console"
	"dcm/internal/app/plan"
	"dcm/internal/engine/config"
	"dcm/internal/engine/daemon"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/exitcode"
	"dcm/internal/frontends/dbusapi"
	"dcm/internal/frontends/status"
	"dcm/internal/leases/drain"
	"dcm/internal/linux/journal"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
	"dcm/internal/linux/watch"
	"dcm/internal/text"
)

// manner is how a change is made.
type manner struct {
	rolling      bool   // one GPU after another
	ignoreBudget bool   // more units may be down than the budgets permit
	command      string // that the history of runs names; "": the command line of this process
	profile      string // that the command selects if it names none, or [config.None]; "" if it selects nothing

	confirm time.Duration // the time to confirm the selection; 0: it need not be confirmed
}

// selects returns the selection that a command makes, nil if it makes none. want is the profile that it names.
func (m manner) selects(want string) *runstate.Selection {
	if want == "" {
		want = m.profile
	}
	if want == "" {
		return nil
	}
	return &runstate.Selection{Profile: profileOf(want), Rolling: m.rolling, IgnoreBudget: m.ignoreBudget}
}

// Follow makes the daemon check the GPUs and shows the run until it ends. choose writes the
// selection, after systemd was reached. want is the profile that choose selects, "" for any.
func Follow(ctx context.Context, h *host.Host, con *console.Console, want string, choose func() error) error {
	return follow(ctx, h, con, want, manner{}, choose)
}

// FollowFor is [Follow] for a change that a process makes for a command of the administrator.
func FollowFor(ctx context.Context, h *host.Host, con *console.Console, command, want string, choose func() error) error {
	return follow(ctx, h, con, want, manner{command: command}, choose)
}

// follow is Follow for a change that is made in that manner.
func follow(ctx context.Context, h *host.Host, con *console.Console, want string, how manner, choose func() error) error {
	conn, err := h.Dial(ctx)
	if err != nil {
		return fmt.Errorf("nothing was changed: cannot connect to systemd: %w", err)
	}
	defer conn.Close()
	// The daemon may see the new selection before the request of this command arrives.
	asked := h.Asked(append([]string{"dcm"}, os.Args[1:]...))
	if how.command != "" {
		asked = h.Asked(strings.Fields(how.command))
	}
	note, err := h.Note(asked, how.selects(want))
	if err != nil {
		if how.rolling || how.ignoreBudget {
			return fmt.Errorf("nothing was changed: cannot pass the options to the daemon: %w", err)
		}
		con.Warn("cannot record the caller in the history of runs: " + err.Error())
	}
	if err := choose(); err != nil {
		_ = h.Forget(note) // a note that stays expires
		return err
	}
	return watchRun(ctx, h, con, func() error { return requestRun(ctx, h, conn) }, func(view *progress, err error) error {
		return concluded(ctx, h, con, view, want, err)
	})
}

// requestRun makes the daemon apply the selected profile, and returns when the daemon is idle.
// It starts a daemon that is stopped, and reloads one that is not on the bus. It never stops
// the daemon, since other commands need it.
func requestRun(ctx context.Context, h *host.Host, conn *systemd.Conn) error {
	err := client.CallDaemon(ctx, h, dbusapi.RetryPolicy{Limit: client.DaemonTimeout}, func(c *dbusapi.Client) error {
		_, err := c.Apply(ctx)
		return err
	})
	if !errors.Is(err, dbusapi.ErrAbsent) {
		return err
	}
	units, err := conn.Units.List(ctx, []string{unitname.Daemon}, systemd.All)
	switch {
	case err != nil:
		return err
	case units[0].Active == "active":
		return conn.Jobs.ReloadOrRestart(ctx, unitname.Daemon)
	}
	_, err = conn.Jobs.Restart(ctx, unitname.Daemon)
	return err
}

// watchRun shows the run until begin, which requests it, has returned. Then end returns the
// result.
func watchRun(ctx context.Context, h *host.Host, con *console.Console, begin func() error, end func(*progress, error) error) error {
	before, err := runstate.ReadRun(h.Runtime())
	if err != nil {
		before = nil // an unreadable old report is replaced by the new run
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	changed, err := watch.Files(watching, []string{h.Runtime()}, 30*time.Millisecond, journal.Log(con.Err, "dcm"))
	if err != nil { // the profile is selected by then
		con.Warn("the steps are not shown: " + err.Error())
	}
	ended := make(chan error, 1)
	go func() { ended <- begin() }()
	view := newProgress(con, before)
	var redraw <-chan time.Time
	if con.Live {
		ticker := time.NewTicker(redrawInterval)
		defer ticker.Stop()
		redraw = ticker.C
	}
	for {
		select {
		case <-changed:
			view.update(h)
		case <-redraw:
			view.show()
		case err := <-ended:
			view.update(h)
			view.close()
			return end(view, err)
		}
	}
}

// concluded reports the result of a request. err is the daemon's answer, nil if the daemon is
// idle; want is the selected profile, "" for any.
func concluded(ctx context.Context, h *host.Host, con *console.Console, view *progress, want string, err error) error {
	if ctx.Err() != nil {
		return errors.New("interrupted; the run continues, see 'dcm status'")
	}
	failed, ran := errors.AsType[*dbusapi.FailedError](err)
	if err != nil && !ran {
		return err
	}
	state, unread := stateAtRest(ctx, h)
	if state != nil && want != "" && state.Config == "" && state.Profile != profileOf(want) {
		return overtaken(want, state)
	}
	if state == nil {
		return errors.Join(err, unread, errors.New("see dcm status and journalctl -u dcm -u dcm-apply"))
	}
	for _, w := range withoutOwnWait(h, state.Warnings) {
		con.Warn(w)
	}
	switch {
	case ran && state.Error == nil: // it was repaired since
		return failed
	case state.Phase == runstate.InSync:
		took := view.took()
		if took > 0 && state.Error == nil {
			awaitGPUs(ctx, h, con)
		}
		return ReportApplied(con, state, took, client.Account(ctx, h).Problems)
	case state.Phase == runstate.Idle && state.Error == nil:
		con.Println("No profile is selected; the GPUs are left alone.")
		return nil
	}
	if state.Phase == runstate.Rolling {
		return exitcode.With(exitcode.Transient, fmt.Errorf("profile %s: the change is not complete (%s)\nhint: dcm status shows the progress", state.Profile, state.Progress))
	}
	return Failure(state)
}

// withoutOwnWait removes the warning that this command waits for the end of leases.
func withoutOwnWait(h *host.Host, warnings []string) []string {
	own := h.Asked(append([]string{"dcm"}, os.Args[1:]...)).String()
	return slices.DeleteFunc(slices.Clone(warnings), func(w string) bool { return drain.NoteOf(own, w) })
}

// stateAtRest returns the state of an idle daemon: from the bus, or if the daemon failed to
// start, the one that it wrote.
func stateAtRest(ctx context.Context, h *host.Host) (*runstate.State, error) {
	if state, err := client.DaemonState(ctx, h); err == nil && state.Phase != runstate.Starting {
		return state, nil
	}
	return runstate.ReadState(h.Runtime())
}

// overtaken is the error of a command whose selection was replaced before the daemon was idle.
func overtaken(want string, state *runstate.State) error {
	now := "no profile"
	if state.Profile != "" {
		now = "profile " + state.Profile
	}
	if state.Source != "" {
		now += " by " + state.Source
	}
	return exitcode.With(exitcode.Overtaken, fmt.Errorf("profile %s: overtaken by another selection (found %s)\nhint: see dcm history for who selected it; run the command again to select %[1]s", want, now))
}

// ReportApplied reports a success, and warns about other problems, such as a missing GPU.
// took is how long the change took, 0 if nothing was changed.
func ReportApplied(con *console.Console, state *runstate.State, took time.Duration, problems []status.Problem) error {
	if took > 0 {
		con.Printf("Profile %s is on the GPUs, after %s.\n", state.Profile, text.Duration(took))
	} else {
		con.Printf("Profile %s is on the GPUs already; nothing was restarted.\n", state.Profile)
	}
	if state.Error != nil {
		return Failure(state)
	}
	for _, p := range problems {
		con.Warn(p.Text)
	}
	return nil
}

// Failure returns the error of the state with its hint and exit code.
func Failure(state *runstate.State) error {
	err := daemon.Failure(state)
	switch {
	case state.Config != "":
		return exitcode.With(exitcode.Config, errors.New(state.Config))
	case state.Phase == runstate.Waiting, state.Phase == runstate.InSync && state.Error != nil && state.Error.Transient:
		return exitcode.With(exitcode.Transient, err)
	}
	return err
}

// profileOf returns the name that the daemon's state has for a selection.
func profileOf(profile string) string { return config.OrEmpty(profile) }

// CheckProfile refuses a profile that does not exist or that these GPUs do not support, before
// anything is written.
func CheckProfile(ctx context.Context, h *host.Host, given []string) error {
	_, _, _, err := plan.Compare(ctx, h, client.FromDaemon(h), given...)
	if err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	return nil
}

// checkGiven is [CheckProfile] for a command of the administrator. It waits while a change reloads the driver.
func checkGiven(ctx context.Context, h *host.Host, con *console.Console, given []string) error {
	if err := client.AwaitReload(ctx, h, con.Note); err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	return CheckProfile(ctx, h, given)
}
