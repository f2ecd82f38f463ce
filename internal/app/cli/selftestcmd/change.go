package selftestcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"dcm/internal/app/cli/change"
	"dcm/internal/app/cli/client"
	"dcm/internal/app/cli/console"
	"dcm/internal/app/selftest"
	"dcm/internal/engine/config"
	"dcm/internal/engine/config/selection"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/exitcode"
	"dcm/internal/frontends/metrics"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/atomicfile"
	"dcm/internal/linux/journal"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/watch"
)

// selftestUnit is where the GPUs are taken through their modes. What takes them back is
// the last command of this unit, which PID 1 executes however the first one has ended.
const selftestUnit = "dcm-selftest.service"

// selftestFile defines the profiles of a self-test. As long as it is there, a profile of
// them that is selected until reboot is the self-test's.
func selftestFile(h *host.Host) string {
	return filepath.Join(config.DefaultPaths(h.Root).Runtime, "50-selftest.toml")
}

// selftestChange starts the unit and follows it. Who interrupts it has the unit stopped,
// and waits until all is as it was.
func selftestChange(ctx context.Context, h *host.Host, con *console.Console, o selftestOptions) error {
	if o.archive == "-" {
		return exitcode.With(exitcode.Usage, errors.New("with --change the archive goes to a file"))
	}
	if err := h.NeedRoot("a self-test that changes the GPUs"); err != nil {
		return err
	}
	cfg, gpus, err := partitionable(ctx, h)
	if err != nil {
		return err
	}
	if err := changeable(ctx, h, cfg, gpus); err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	told, stop, err := forwardProgress(h, con)
	if err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	defer stop()
	job, err := selftestJob(h, cfg, o, told)
	if err != nil {
		return err
	}
	conn, err := h.Dial(ctx)
	if err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	defer conn.Close()
	if err := conn.Transients.StartJob(ctx, job); err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	failed, err := conn.Transients.AwaitJob(ctx, job.Name)
	interrupted := ctx.Err() != nil
	ctx = context.WithoutCancel(ctx)
	if interrupted {
		if err := conn.Jobs.Stop(ctx, job.Name); err != nil {
			return err
		}
		failed, err = conn.Transients.AwaitJob(ctx, job.Name)
	}
	stop()
	if err == nil {
		err = conn.Jobs.ResetFailed(ctx, job.Name) // what it has to tell is told here
	}
	if err != nil {
		return fmt.Errorf("%s goes on, and goes back when it has ended: %w", job.Name, err)
	}
	return selftestEnd(failed, interrupted)
}

// selftestEnd is how the unit has ended.
func selftestEnd(failed systemd.Command, interrupted bool) error {
	switch {
	case failed.Directive == "ExecStopPost":
		return fmt.Errorf("the GPUs may not be as before: dcm status and journalctl -u dcm tell (%s)", failed)
	case interrupted:
		return errors.New("interrupted; the GPUs are as before")
	case failed.Signal:
		return fmt.Errorf("it was ended, and the GPUs are as before: %s", failed)
	case failed.Status != 0:
		return exitcode.With(failed.Status, nil)
	}
	return nil
}

// telling shows what the unit writes, until it is stopped.
func forwardProgress(h *host.Host, con *console.Console) (file string, stop func(), err error) {
	f, err := os.CreateTemp(h.Runtime(), "selftest-*.log")
	if err != nil {
		return "", nil, err
	}
	over, shown := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(shown)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for ended := false; !ended; {
			select {
			case <-tick.C:
			case <-over:
				ended = true
			}
			_, _ = io.Copy(con.Out, f) // what cannot be shown is no reason to stop
		}
	}()
	return f.Name(), sync.OnceFunc(func() {
		close(over)
		<-shown
		f.Close()
		os.Remove(f.Name())
	}), nil
}

func selftestJob(h *host.Host, cfg *config.Config, o selftestOptions, told string) (systemd.Job, error) {
	self, err := os.Executable()
	if err != nil {
		return systemd.Job{}, err
	}
	file, err := o.file(time.Now())
	if err != nil {
		return systemd.Job{}, err
	}
	j := systemd.Job{Name: selftestUnit, Description: "Self-test of dcm", Directory: "/", File: told}
	j.Command = []string{self, "selftest", "--change", "--within", "--archive=" + file}
	if o.powerOff {
		j.Command = append(j.Command, "--power-was-off")
	}
	j.Then = []string{self, "selftest", "--back"}
	if host.UntilReboot(h, cfg) {
		j.Then = append(j.Then, "--until-reboot="+cfg.Profile.Name)
	}
	return j, nil
}

// changeable refuses what would be refused at the first change.
func changeable(ctx context.Context, h *host.Host, cfg *config.Config, gpus []partition.GPU) error {
	if _, err := selftest.Before(gpus); err != nil {
		return err
	}
	if list := host.LeaseHolders(h); len(list) > 0 {
		return exitcode.With(exitcode.Transient, fmt.Errorf("%s is in use: the last lease has to end first", list[0].Unit))
	}
	f, err := forecast(ctx, h, cfg)
	if err != nil {
		return err
	}
	if e := f.Refused; e != nil {
		return exitcode.With(exitcode.Transient, errors.New(e.Message()))
	}
	return nil
}

// selftestWithin is the unit's first command.
func selftestWithin(ctx context.Context, h *host.Host, con *console.Console, o selftestOptions) error {
	cfg, gpus, err := partitionable(ctx, h)
	if err != nil {
		return err
	}
	e := newTest(ctx, h, cfg, time.Now())
	e.result.Changed = true
	if _, err := e.found(ctx, o.powerOff); err != nil {
		return err
	}
	targets := selftest.Targets(gpus, cfg.ReloadDriver)
	before, err := selftest.Before(gpus)
	if err != nil {
		return err
	}
	if err := define(h, before, targets); err != nil {
		return err
	}
	// Nothing is changed by this: it finds out whether it could be gone back.
	if err := e.choose(ctx, con, before.Name); err != nil {
		return fmt.Errorf("nothing was changed: the GPUs could not be taken back to what they are: %w", err)
	}
	for i, t := range targets {
		if ctx.Err() != nil {
			break
		}
		fmt.Fprintf(con.Out, "\n%s (%d of %d)\n", con.Bold(t.Mode), i+1, len(targets))
		e.runTarget(ctx, con, t)
	}
	e.restore(ctx, con, before)
	fmt.Fprintln(con.Out)
	return e.conclude(context.WithoutCancel(ctx), con, o.archive)
}

// define writes the profiles down. Nobody is to reboot the host for a self-test.
func define(h *host.Host, before partition.Profile, targets []selftest.Target) error {
	text := "# Written by \"dcm selftest\", which takes it away.\nversion = 1\n[apply]\nreboot = \"never\"\n" + config.FormatProfile(before)
	for _, t := range targets {
		if t.SkipReason == "" {
			text += config.FormatProfile(t.Profile)
		}
	}
	file := selftestFile(h)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return atomicfile.Write(file, []byte(text), atomicfile.Options{Mode: 0o644})
}

// choose has the daemon put a profile on the GPUs, as dcm apply does.
func (e *test) choose(ctx context.Context, con *console.Console, name string) error {
	return change.Follow(ctx, e.host, con, name, func() error { return selection.SelectRuntime(config.DefaultPaths(e.host.Root), name) })
}

// goThrough takes the GPUs to one target, and looks at them there.
func (e *test) runTarget(ctx context.Context, con *console.Console, t selftest.Target) {
	const what = "the change"
	left := t.SkipReason
	gpus, err := gpusOf(ctx, e.host, e.config)
	if left == "" && err == nil {
		left = t.UnlistedReason(gpus)
	}
	if left == "" {
		if err := change.CheckProfile(ctx, e.host, []string{t.Profile.Name}); err != nil {
			left = err.Error()
		}
	}
	if left != "" {
		fmt.Fprintln(con.Out, "left out: "+left)
		e.check(selftest.Check{At: t.Mode, What: what, Verdict: selftest.Noted, Text: "left out: " + left})
		return
	}
	e.provoke(ctx, con, t, gpus)
	last := e.run()
	err = e.choose(ctx, con, t.Profile.Name)
	if ctx.Err() != nil {
		return
	}
	e.check(selftest.FromError(t.Mode, what, "made", err))
	e.timed(ctx, t.Mode, last)
	want := t.Want
	if err != nil {
		want = nil // whoever can see the GPUs has to agree all the same
	}
	if _, _, err := e.look(ctx, t.Mode, want); err != nil {
		e.check(selftest.FromError(t.Mode, "the look at it", "", err))
	}
}

// run is the id of the last run.
func (e *test) run() string {
	if run, err := runstate.ReadRun(e.host.Runtime()); err == nil && run != nil {
		return run.ID
	}
	return ""
}

// timed takes the times of the run that was made since.
func (e *test) timed(ctx context.Context, at, last string) {
	run, err := runstate.ReadRun(e.host.Runtime())
	if err != nil || run == nil || run.ID == last {
		return
	}
	var restart runstate.Restart
	if state, err := client.State(ctx, e.host); err == nil && state != nil {
		restart = state.Restart
	}
	e.result.Runs = append(e.result.Runs, selftest.NewTiming(at, *run, metrics.Phases(restart, *run)))
	if run.Result == runstate.Applied {
		e.facts.AddDriverDefault(*run)
	}
}

// goBack takes the GPUs back to what they were, and looks whether that is so. That they
// are taken back when this is not reached is the unit's to do.
func (e *test) restore(ctx context.Context, con *console.Console, before partition.Profile) {
	const at = "as before"
	if ctx.Err() != nil {
		return
	}
	fmt.Fprintf(con.Out, "\n%s: %s\n", con.Bold("As before"), selftest.Describe(before))
	last := e.run()
	e.check(selftest.FromError(at, "the change", "made", e.choose(ctx, con, before.Name)))
	e.timed(ctx, at, last)
	views, _, err := e.look(ctx, at, e.was)
	if err != nil {
		e.check(selftest.FromError(at, "the look at it", "", err))
		return
	}
	e.record(views)
}

// goesOn is how long the daemon may take to try again by itself.
const retryTimeout = 10 * time.Minute

// enough is how often the daemon may try, while a driver has yet to let go of a process
// that has ended.
const maxFailures = 3

// await waits until the daemon has the profile on the GPUs, or, bounded, until it has
// failed often enough at that while nobody was in the way.
func (e *test) await(ctx context.Context, profile string, bounded bool) error {
	ctx, cancel := context.WithTimeout(ctx, retryTimeout)
	defer cancel()
	changed, err := watch.Files(ctx, []string{e.host.Runtime()}, 30*time.Millisecond, journal.Log(io.Discard, "dcm"))
	if err != nil {
		return err
	}
	for {
		state, err := runstate.ReadState(e.host.Runtime())
		if err == nil && state != nil && state.Profile == profile {
			failed := state.Error != nil && len(state.Holders) == 0 && (state.Phase == runstate.Stuck || state.Phase == runstate.Waiting && state.Tries >= maxFailures)
			switch {
			case state.Phase == runstate.InSync:
				return nil
			case bounded && failed:
				return change.Failure(state)
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("profile %s is not on the GPUs: %w", profile, ctx.Err())
		}
	}
}

// selftestBack is the unit's last command. What is selected is the self-test's own, or
// somebody has selected something else meanwhile, which is then to stay.
func selftestBack(ctx context.Context, h *host.Host, con *console.Console, untilReboot string) error {
	if _, err := os.Lstat(selftestFile(h)); err != nil {
		return nil // it was not begun
	}
	cfg, err := h.Config()
	paths := config.DefaultPaths(h.Root)
	ours := err == nil && strings.HasPrefix(cfg.Selected, selftest.Prefix) && host.UntilReboot(h, cfg)
	if ours {
		e := &test{host: h, config: cfg}
		if err := e.choose(ctx, con, selftest.Prefix+"before"); err != nil {
			con.Warn(err.Error())
			if err := e.await(ctx, selftest.Prefix+"before", false); err != nil {
				return err
			}
		}
	}
	return change.Follow(ctx, h, con, "", func() error {
		var err error
		switch {
		case ours && untilReboot != "":
			err = selection.SelectRuntime(paths, untilReboot)
		case ours:
			err = selection.ClearRuntime(paths)
		}
		if err == nil {
			err = os.Remove(selftestFile(h))
		}
		return err
	})
}
