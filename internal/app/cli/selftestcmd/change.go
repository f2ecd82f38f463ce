package selftestcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	"dcm/internal/text"
)

// selftestUnit is the unit that applies the modes. Its last command restores the GPUs; PID 1
// runs that command however the first one ended.
const selftestUnit = "dcm-selftest.service"

// asked is the command that the history of runs names. The processes of the unit have other options.
const asked = "dcm support selftest --change"

// selftestFile defines the profiles of a self-test. While it exists and one of them is
// selected until reboot, the self-test selected it.
func selftestFile(h *host.Host) string {
	return filepath.Join(config.DefaultPaths(h.Root).Runtime, "50-selftest.toml")
}

// selftestChange starts the unit and follows it. An interrupt stops the unit and waits until
// the GPUs are restored.
func selftestChange(ctx context.Context, h *host.Host, con *console.Console, o selftestOptions) error {
	if o.archive == "-" {
		return exitcode.With(exitcode.Usage, errors.New("--archive: standard output is not possible with --change"))
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
	view := &view{con: con}
	progress, stop, err := forward(h, view)
	if err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	defer stop()
	job, err := selftestJob(h, cfg, o, progress)
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
		err = conn.Jobs.ResetFailed(ctx, job.Name) // its result is returned here
	}
	if err != nil {
		return fmt.Errorf("%s continues, and restores the GPUs when it ends: %w", job.Name, err)
	}
	return selftestEnd(failed, interrupted)
}

// selftestEnd is the result of the unit.
func selftestEnd(failed systemd.Command, interrupted bool) error {
	switch {
	case failed.Directive == "ExecStopPost":
		return fmt.Errorf("the GPUs may not be restored (%s)\nhint: see dcm status and journalctl -u dcm", failed)
	case interrupted:
		return errors.New("interrupted; the GPUs are restored")
	case failed.Signal:
		return fmt.Errorf("the self-test was killed (%s); the GPUs are restored", failed)
	case failed.Status != 0:
		return exitcode.With(failed.Status, nil)
	}
	return nil
}

func selftestJob(h *host.Host, cfg *config.Config, o selftestOptions, progress string) (systemd.Job, error) {
	self, err := os.Executable()
	if err != nil {
		return systemd.Job{}, err
	}
	archive, err := o.file(time.Now())
	if err != nil {
		return systemd.Job{}, err
	}
	j := systemd.Job{Name: selftestUnit, Description: "Self-test of dcm", Directory: "/", File: progress}
	j.Command = []string{self, "selftest", "--change", "--within", "--archive=" + archive}
	if o.powerOff {
		j.Command = append(j.Command, "--power-was-off")
	}
	j.Then = []string{self, "selftest", "--back"}
	if host.UntilReboot(h, cfg) {
		j.Then = append(j.Then, "--until-reboot="+cfg.Profile.Name)
	}
	return j, nil
}

// changeable returns the error with which the first change would be refused.
func changeable(ctx context.Context, h *host.Host, cfg *config.Config, gpus []partition.GPU) error {
	if _, err := selftest.Before(gpus); err != nil {
		return err
	}
	if list := host.LeaseHolders(h); len(list) > 0 {
		return exitcode.With(exitcode.Transient, fmt.Errorf("%s is in use (the last lease must end first)", list[0].Unit))
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
	e := newTest(ctx, h, cfg, time.Now(), emitter(con))
	e.result.Changed = true
	targets := selftest.Targets(gpus, cfg.ReloadDriver)
	e.begin(gpus, targets)
	e.emit(event{Doing: "reading the GPUs"})
	if _, err := e.found(ctx, o.powerOff); err != nil {
		return err
	}
	before, err := selftest.Before(gpus)
	if err != nil {
		return err
	}
	if e.profiles, err = define(h, before, targets); err != nil {
		return err
	}
	// This changes nothing. It checks that the current state can be restored.
	if err := e.choose(ctx, before.Name); err != nil {
		return fmt.Errorf("nothing was changed: the current state could not be restored: %w", err)
	}
	for i, t := range targets {
		if ctx.Err() != nil {
			break
		}
		e.emit(event{Doing: fmt.Sprintf("%s (%d of %d)", t.Mode, i+1, len(targets))})
		e.runTarget(ctx, t)
	}
	e.restore(ctx, before)
	return e.conclude(context.WithoutCancel(ctx), o.archive)
}

// define writes the profiles of the self-test. It disables reboots.
func define(h *host.Host, before partition.Profile, targets []selftest.Target) ([]byte, error) {
	toml := "# Written by \"dcm support selftest\", which removes it.\nversion = 1\n[apply]\nreboot = \"never\"\n" + config.FormatProfile(before)
	for _, t := range targets {
		if t.SkipReason == "" {
			toml += config.FormatProfile(t.Profile)
		}
	}
	file := selftestFile(h)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, err
	}
	return []byte(toml), atomicfile.Write(file, []byte(toml), atomicfile.Options{Mode: 0o644})
}

// choose makes the daemon apply a profile, as dcm apply does.
func (e *test) choose(ctx context.Context, name string) error {
	return change.FollowFor(ctx, e.host, quiet(), asked, name, func() error { return selection.SelectRuntime(config.DefaultPaths(e.host.Root), name) })
}

// runTarget applies one target and reads the GPUs.
func (e *test) runTarget(ctx context.Context, t selftest.Target) {
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
		e.check(selftest.Check{At: t.Mode, What: what, Verdict: selftest.Noted, Text: "skipped: " + left})
		e.row(selftest.ModeResult{Mode: t.Mode, SkipReason: left}, t.Mode)
		return
	}
	defer func() { e.row(selftest.ModeResult{Mode: t.Mode}, t.Mode) }()
	e.provoke(ctx, t, gpus)
	last := e.run()
	err = e.choose(ctx, t.Profile.Name)
	if ctx.Err() != nil {
		return
	}
	e.check(e.outcome(ctx, t.Mode, what, "applied", err))
	e.timed(ctx, t.Mode, last)
	want := t.Want
	if err != nil {
		want = nil // all sources must agree all the same
	}
	if _, _, err := e.look(ctx, t.Mode, want); err != nil {
		e.check(selftest.FromError(t.Mode, "reading the GPUs", "", err))
	}
}

// run returns the id of the last run.
func (e *test) run() string {
	if run, err := runstate.ReadRun(e.host.Runtime()); err == nil && run != nil {
		return run.ID
	}
	return ""
}

// timed records the durations of a run that is newer than last.
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
	if slices.ContainsFunc(run.Steps, func(s runstate.Step) bool { return s.Kind.Reloads() }) {
		e.reloads = append(e.reloads, reload{at, run.Started, run.Finished})
	}
}

// restore applies the previous modes and checks them. If it is not reached, the unit's last
// command restores the GPUs.
func (e *test) restore(ctx context.Context, before partition.Profile) {
	const at = restored
	if ctx.Err() != nil {
		return
	}
	e.emit(event{Doing: "restoring " + selftest.Describe(before)})
	last := e.run()
	e.check(e.outcome(ctx, at, "the change", "applied", e.choose(ctx, before.Name)))
	e.timed(ctx, at, last)
	defer func() { e.row(selftest.ModeResult{Mode: at}, at) }()
	views, _, err := e.look(ctx, at, e.was)
	if err != nil {
		e.check(selftest.FromError(at, "reading the GPUs", "", err))
		return
	}
	e.remember(views)
}

// retryTimeout limits how long the daemon may retry.
const retryTimeout = 10 * time.Minute

// maxFailures is how often the daemon may fail while a driver has not yet released a process
// that ended.
const maxFailures = 3

// await waits until the daemon has applied the profile, and shows why it has to wait. what names the
// change. If bounded, it gives up after maxFailures failures without a visible holder.
func (e *test) await(ctx context.Context, what, profile string, bounded bool) error {
	ctx, cancel := context.WithTimeout(ctx, retryTimeout)
	defer cancel()
	until, _ := ctx.Deadline()
	w := waiter{wait: wait{What: what, Until: until}, bounded: bounded, emit: e.emit}
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
			e.names.addFrom(state)
			w.show(state)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("profile %s is not on the GPUs: %w", profile, ctx.Err())
		}
	}
}

// waiter shows what a change waits for.
type waiter struct {
	wait    wait // shown last
	bounded bool // without a holder the wait is short, and is not shown
	emit    func(event)
}

// show shows the reason of a state, if it is a new one. The process with which the self-test has provoked a
// refusal has ended.
func (w *waiter) show(state *runstate.State) {
	others := slices.ContainsFunc(state.Holders, func(h runstate.Holder) bool { return h.Unit != selftestUnit })
	if state.Error == nil || w.bounded && !others {
		return
	}
	if reason := text.OneLine(state.Error.Text); reason != w.wait.Reason {
		w.wait.Reason = reason
		shown := w.wait
		w.emit(event{Wait: &shown})
	}
}

// selftestBack is the unit's last command. It keeps a profile that was selected by the
// administrator during the test.
func selftestBack(ctx context.Context, h *host.Host, con *console.Console, untilReboot string) error {
	if _, err := os.Lstat(selftestFile(h)); err != nil {
		return nil // the test did not begin
	}
	cfg, err := h.Config()
	paths := config.DefaultPaths(h.Root)
	ours := err == nil && strings.HasPrefix(cfg.Selected, selftest.Prefix) && host.UntilReboot(h, cfg)
	if ours {
		const what = "restoring the GPUs"
		e := &test{host: h, config: cfg, emit: emitter(con)}
		e.emit(event{Doing: what})
		if err := e.choose(ctx, selftest.Prefix+"before"); err != nil {
			if err := e.await(ctx, what, selftest.Prefix+"before", false); err != nil {
				return err
			}
		}
	}
	return change.FollowFor(ctx, h, quiet(), asked, "", func() error {
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
