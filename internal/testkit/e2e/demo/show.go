package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"dcm/internal/testkit/e2e"
)

// show runs commands on the node and prints them with their output.
type show struct {
	node     *e2e.Container
	w        io.Writer
	terminal bool // w is a terminal: dcm shows colours and redraws
	columns  int  // of the terminal
	wrong    int
	stopped  func() bool // reports whether the user has stopped the demo: then nothing is shown, and errors are ignored
}

// Sequences of a terminal.
const (
	bold  = "\x1b[1m"
	dim   = "\x1b[2m"
	red   = "\x1b[31m"
	green = "\x1b[32m"
	reset = "\x1b[0m"
)

func (s *show) paint(code, text string) string {
	if !s.terminal || os.Getenv("NO_COLOR") != "" {
		return text
	}
	return code + text + reset
}

func (s *show) title(text string) { s.print("\n" + s.paint(bold, "== "+text) + "\n\n") }

// live prints a command and, while it runs, its output. It must exit with that status.
func (s *show) live(ctx context.Context, command string, status int) {
	if s.stopped() {
		return
	}
	s.print("# " + command + "\n")
	code, err := s.run(ctx, command)
	if err != nil || code != status {
		s.check(fmt.Sprintf("the command exits with %d", status), false, fmt.Sprintf("exit status %d, %v", code, err))
	}
	s.print("\n")
}

// run runs a command on the node. If the demo is on a terminal, so is the command.
func (s *show) run(ctx context.Context, command string) (int, error) {
	program := []string{"sh", "-c", command + " 2>&1"}
	if s.terminal {
		const rows = 24
		program = []string{"script", "--quiet", "--return", "--flush", "--command",
			fmt.Sprintf("stty rows %d columns %d; %s", rows, min(s.columns, maxColumns), command), "/dev/null"}
	}
	cmd, err := inside(ctx, s.node, []string{"--pipe"}, program...)
	if err != nil {
		return 0, err
	}
	cmd.Stdout, cmd.Stderr = s.w, s.w
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// maxColumns limits the width of the output on a wide terminal.
const maxColumns = 100

// quiet prints a command, and its output only if it fails.
func (s *show) quiet(ctx context.Context, script string) {
	if s.stopped() {
		return
	}
	s.print("# " + script + "\n")
	r, err := s.node.Run(ctx, "sh", "-c", script)
	if err != nil || r.Code != 0 {
		s.print(s.paint(dim, r.Stdout+r.Stderr))
		s.check("the command succeeds", false, fmt.Sprintf("exit status %d, %v", r.Code, err))
	}
}

// await waits until the daemon has that profile and phase.
func (s *show) await(ctx context.Context, profile, phase string) {
	if s.stopped() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	began := time.Now()
	r, err := s.node.Run(ctx, "e2e-agent", "await", "/run/dcm/state.json", fmt.Sprintf(`"profile": %q`, profile), fmt.Sprintf(`"phase": %q`, phase))
	s.check(fmt.Sprintf("dcm has continued by itself: %s is on the GPUs %.1f s later", profile, time.Since(began).Seconds()), err == nil && r.Code == 0, r.Stderr)
}

// waitTimeout limits the wait for a change.
const waitTimeout = 2 * time.Minute

// ask runs a command without printing it.
func (s *show) ask(ctx context.Context, script string, args ...string) string {
	r, err := s.node.Run(ctx, append([]string{"sh", "-c", script, "sh"}, args...)...)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(r.Stdout + r.Stderr)
}

func (s *show) pids(ctx context.Context) (pids [2]string) {
	for i, unit := range []string{"amd-metrics-exporter", "gpuagent"} {
		pids[i] = s.ask(ctx, "systemctl show --property=MainPID --value "+unit)
	}
	return pids
}

func (s *show) same(ctx context.Context, what string, before [2]string) {
	now := s.pids(ctx)
	s.check(what, now == before, now)
}

func (s *show) check(what string, ok bool, seen any) {
	if s.stopped() {
		return
	}
	if ok {
		s.print(s.paint(green, "[ok]") + " " + what + "\n")
		return
	}
	s.wrong++
	s.print(fmt.Sprintf("%s %s: %v\n", s.paint(red, "[WRONG]"), what, seen))
}

// print prints text.
func (s *show) print(text string) {
	if !s.stopped() {
		fmt.Fprint(s.w, text)
	}
}

// modes reads the GPUs' modes from sysfs, in PCI order.
func (s *show) modes(ctx context.Context) []gpu {
	text := s.ask(ctx, `cd /sys/bus/pci/devices && for gpu in *; do
		[ ! -e $gpu/current_compute_partition ] || echo $gpu $(cat $gpu/current_compute_partition $gpu/current_memory_partition)
	done`)
	var all []gpu
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 3 {
			all = append(all, gpu{f[0], f[1], f[2]})
		}
	}
	return all
}
