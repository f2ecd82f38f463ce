package selftestcmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"dcm/internal/app/cli/client"
	"dcm/internal/app/cli/console"
	"dcm/internal/app/cli/nodemodel"
	"dcm/internal/app/selftest"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
)

// provoke makes a process of the self-test keep a GPU open during a change. The change must be
// refused because of that process, and must succeed after the process ends. It does so once
// for each vendor, at the first change that has steps.
func (e *test) provoke(ctx context.Context, t selftest.Target, gpus []partition.GPU) {
	const what = selftest.WhileOpen
	vendor := t.Vendor(gpus)
	_, steps, err := nodemodel.Outcome(t.Profile, gpus)
	if e.provoked[vendor] || err != nil || len(steps) == 0 {
		return
	}
	views, err := selftest.ReadViews(ctx, e.host, e.config)
	node := views.Open[vendor]
	if err != nil || node == "" {
		return
	}
	e.provoked[vendor] = true
	pid, end, err := hold(ctx, node)
	if err != nil {
		e.check(selftest.Check{At: t.Mode, What: what, Verdict: selftest.NotSeen, Text: err.Error()})
		return
	}
	defer end()
	e.emit(event{Doing: t.Mode + ": a change while a GPU is open"})
	refused := e.choose(ctx, t.Profile.Name)
	e.check(e.outcome(ctx, t.Mode, what, "refused, and the process is named", refusedFor(ctx, e.host, pid, refused)))
	if now, err := selftest.ReadViews(ctx, e.host, e.config); err == nil {
		e.check(selftest.CompareView(t.Mode, views.Own, now.Own)...)
	}
	end()
	const change = "the change after the GPU is closed"
	e.emit(event{Doing: t.Mode + ": " + change})
	began, last := time.Now(), e.run()
	err = e.await(ctx, t.Mode+": "+change, t.Profile.Name, true)
	e.timed(ctx, t.Mode, last)
	e.check(e.outcome(ctx, t.Mode, change, fmt.Sprintf("applied %s later", time.Since(began).Round(time.Millisecond)), err))
}

// refusedFor returns an error if the refusal does not name the process.
func refusedFor(ctx context.Context, h *host.Host, pid int, refused error) error {
	if refused == nil {
		return errors.New("the change was not refused")
	}
	state, err := client.State(ctx, h)
	if err != nil || state == nil {
		return fmt.Errorf("the daemon does not report the reason: %w", errors.Join(refused, err))
	}
	if !slices.ContainsFunc(state.Holders, func(p runstate.Holder) bool { return p.PID == pid }) {
		return fmt.Errorf("the refusal does not name process %d: %w", pid, refused)
	}
	return nil
}

// hold starts a process that keeps a device node open until end is called or this process
// ends.
func hold(ctx context.Context, node string) (pid int, end func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, nil, err
	}
	cmd := exec.CommandContext(ctx, self, "selftest", "--hold="+node)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return 0, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, nil, err
	}
	if err := cmd.Start(); err != nil {
		return 0, nil, err
	}
	end = func() {
		in.Close()
		_ = cmd.Wait() // its status does not matter; the second call returns immediately
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || strings.TrimSpace(line) != node {
		end()
		return 0, nil, fmt.Errorf("%s could not be opened", node)
	}
	return cmd.Process.Pid, end, nil
}

// selftestHold is that process.
func selftestHold(con *console.Console, node string) error {
	f, err := os.OpenFile(node, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	fmt.Fprintln(con.Out, node)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
