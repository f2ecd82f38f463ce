package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"dcm/internal/e2e"
)

// show runs commands on the node before the eyes of the user.
type show struct {
	node  *e2e.Container
	w     io.Writer
	wrong int
}

func (s *show) title(text string) { fmt.Fprintf(s.w, "\n== %s\n\n", text) }

// command shows a command and what it says. It must succeed.
func (s *show) command(ctx context.Context, script string) {
	fmt.Fprintf(s.w, "# %s\n", script)
	r, err := s.node.Run(ctx, "sh", "-c", script)
	fmt.Fprint(s.w, r.Stdout, r.Stderr)
	if err != nil || r.Code != 0 {
		s.check("the command succeeds", false, fmt.Sprintf("exit status %d, %v", r.Code, err))
	}
}

// ask runs a command unseen.
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
	if ok {
		fmt.Fprintf(s.w, "[ok] %s\n", what)
		return
	}
	s.wrong++
	fmt.Fprintf(s.w, "[WRONG] %s: %v\n", what, seen)
}
