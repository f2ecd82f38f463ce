package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"dcm/internal/testkit/e2e"
)

// show runs commands on the node and prints them with their output.
type show struct {
	node    *e2e.Container
	w       io.Writer
	wrong   int
	stopped func() bool // reports whether the user has stopped the demo: then nothing is shown, and errors are ignored
}

func (s *show) title(text string) {
	if !s.stopped() {
		fmt.Fprintf(s.w, "\n== %s\n\n", text)
	}
}

// command prints a command and its output. It must succeed.
func (s *show) command(ctx context.Context, script string) {
	if s.stopped() {
		return
	}
	fmt.Fprintf(s.w, "# %s\n", script)
	r, err := s.node.Run(ctx, "sh", "-c", script)
	fmt.Fprint(s.w, r.Stdout, r.Stderr)
	if err != nil || r.Code != 0 {
		s.check("the command succeeds", false, fmt.Sprintf("exit status %d, %v", r.Code, err))
	}
}

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
		fmt.Fprintf(s.w, "[ok] %s\n", what)
		return
	}
	s.wrong++
	fmt.Fprintf(s.w, "[WRONG] %s: %v\n", what, seen)
}

// show prints text.
func (s *show) show(text string) {
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
