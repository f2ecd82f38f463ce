package pid1

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Graph is a random graph of units, with steps that change it. It compares the model with a real PID 1: both play
// the steps, and each lets all jobs end before the next step.
type Graph struct {
	Files []File
	Steps []Step
}

// Step is one request: "start", "stop", "restart", "kill" (SIGKILL of the unit's process) or "arm" (the next
// start of a unit with the program Once fails).
type Step struct{ Verb, Unit string }

// The programs of a graph.
const (
	Runs  = "runs" // until SIGTERM
	Good  = "good" // exits with 0
	Bad   = "bad"  // exits with 1
	Once  = "once" // exits with 1 the first time, then with 0
	prior = "/run/once-"
)

// RandomGraph returns the graph of a seed. The names of its units begin with prefix.
func RandomGraph(seed uint64, prefix string) Graph {
	r := rand.New(rand.NewPCG(seed, 252))
	var g Graph
	var names []string
	for i := range 2 + r.IntN(4) {
		f := File{Name: fmt.Sprintf("%s%d.service", prefix, i), StartLimitInterval: 1000 * time.Second, StartLimitBurst: 30, RestartDelay: 2 * time.Second}
		switch r.IntN(6) {
		case 0:
			f.Type, f.RemainAfterExit, f.Start = "oneshot", true, Good
		case 1:
			f.Type, f.RemainAfterExit, f.Start = "oneshot", r.IntN(2) == 0, []string{Good, Bad}[r.IntN(2)]
		case 2:
			f.Start, f.StartPre = Runs, []string{Once}
		default:
			f.Start = Runs
		}
		if f.Type == "" && r.IntN(2) == 0 {
			f.Restart = []string{"on-failure", "always"}[r.IntN(2)]
		}
		for _, other := range names {
			if r.IntN(5) < 2 {
				list := []*[]string{&f.Requires, &f.Requires, &f.BindsTo, &f.PartOf, &f.PartOf, &f.Wants, &f.Requisite}[r.IntN(7)]
				*list = append(*list, other)
				if r.IntN(4) > 0 {
					f.After = append(f.After, other)
				}
			} else if r.IntN(6) == 0 {
				f.After = append(f.After, other)
			}
		}
		names = append(names, f.Name)
		g.Files = append(g.Files, f)
	}
	for range 5 {
		verb := []string{"start", "start", "start", "stop", "restart", "restart", "kill", "arm"}[r.IntN(8)]
		g.Steps = append(g.Steps, Step{verb, names[r.IntN(len(names))]})
	}
	return g
}

// Text returns the unit file for a real PID 1.
func (f File) Text() string {
	var b strings.Builder
	b.WriteString("[Unit]\n")
	for _, l := range []struct {
		key  string
		list []string
	}{{"Requires", f.Requires}, {"Requisite", f.Requisite}, {"BindsTo", f.BindsTo}, {"Wants", f.Wants}, {"PartOf", f.PartOf}, {"After", f.After}} {
		if len(l.list) > 0 {
			fmt.Fprintf(&b, "%s=%s\n", l.key, strings.Join(l.list, " "))
		}
	}
	fmt.Fprintf(&b, "StartLimitIntervalSec=%.0f\nStartLimitBurst=%d\n[Service]\nRestartSec=%.1f\n", f.StartLimitInterval.Seconds(), f.StartLimitBurst, f.RestartDelay.Seconds())
	if f.Type != "" {
		fmt.Fprintf(&b, "Type=%s\n", f.Type)
	}
	if f.RemainAfterExit {
		b.WriteString("RemainAfterExit=yes\n")
	}
	if f.Restart != "" {
		fmt.Fprintf(&b, "Restart=%s\n", f.Restart)
	}
	command := map[string]string{Runs: "/usr/bin/sleep infinity", Good: "/usr/bin/true", Bad: "/usr/bin/false",
		Once: "/bin/sh -c 'test -e " + prior + "%n && exit 0; : >" + prior + "%n; exit 1'"}
	for _, p := range f.StartPre {
		fmt.Fprintf(&b, "ExecStartPre=%s\n", command[p])
	}
	fmt.Fprintf(&b, "ExecStart=%s\n", command[f.Start])
	return b.String()
}

// Script returns the step as a shell command for a real PID 1.
func (s Step) Script() string {
	switch s.Verb {
	case "kill":
		return "systemctl kill --kill-whom=main --signal=KILL " + s.Unit + " 2>/dev/null"
	case "arm":
		return "rm -f " + prior + s.Unit
	}
	return "systemctl --no-block " + s.Verb + " " + s.Unit + " 2>/dev/null"
}

// Show is the state of a unit as `systemctl show` prints it.
type Show struct {
	Active, Sub, Result, Restarts string
	New                           bool // it has another invocation than after the step before
}

// Play returns the states of all units after each step, with a version of systemd. If a program ends by itself at
// the same time as others end by a signal, it is the last or, with early, the first to end. A host shows either.
func (g Graph) Play(version int, early bool) []map[string]Show {
	p := &player{failed: make(map[string]bool), early: early}
	m := New(p, g.Files)
	p.m, m.Version = m, version
	ids := make(map[string]string)
	var out []map[string]Show
	for _, s := range g.Steps {
		switch s.Verb {
		case "arm":
			delete(p.failed, s.Unit)
		case "kill":
			if pid := m.Status(s.Unit).MainPID; pid != 0 {
				m.Exited(s.Unit, pid, 0, sigKill)
			}
		default:
			_, _ = m.Request(s.Verb, s.Unit, "replace")
		}
		p.settle()
		now := make(map[string]Show)
		for _, f := range g.Files {
			u := m.Status(f.Name)
			now[f.Name] = Show{u.Active, u.Sub, u.Result, fmt.Sprint(u.Restarts), u.Invocation != ids[f.Name]}
			ids[f.Name] = u.Invocation
		}
		out = append(out, now)
	}
	return out
}

// player is the environment of a graph.
type player struct {
	m      *Manager
	last   int
	units  []string // of the processes, by PID
	killed []func() // ends of processes that got a signal
	ended  []func() // ends of the others
	early  bool     // the others end first
	failed map[string]bool
}

func (p *player) Spawn(unit, program, _ string) int {
	p.last++
	pid := p.last
	p.units = append(p.units, unit)
	if program == Runs {
		return pid
	}
	p.ended = append(p.ended, func() {
		status := 0
		if program == Bad || program == Once && !p.failed[unit] {
			status = 1
		}
		p.failed[unit] = p.failed[unit] || program == Once
		p.m.Exited(unit, pid, status, 0)
	})
	return pid
}

func (p *player) Signal(pid int, kill bool) {
	sig := sigTerm
	if kill {
		sig = sigKill
	}
	p.killed = append(p.killed, func() { p.m.Exited(p.units[pid-1], pid, 0, sig) })
}

func (*player) Condition(string) bool       { return true }
func (*player) Shuffle(int, func(i, j int)) {}
func (*player) Log(Event)                   {}

func (p *player) settle() {
	for {
		for len(p.killed)+len(p.ended) > 0 {
			list := &p.killed
			if len(p.killed) == 0 || p.early && len(p.ended) > 0 {
				list = &p.ended
			}
			next := (*list)[0]
			*list = slices.Delete(*list, 0, 1)
			p.m.At(p.m.Now() + time.Millisecond)
			next()
		}
		at, ok := p.m.Next()
		if !ok {
			return
		}
		p.m.At(at)
		p.m.Advance()
	}
}
