package histories

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"dcm/internal/testkit/pid1"
)

// scenario is a host at its first boot: its units and its configuration.
type scenario struct {
	parsed *parsed
	parts  []feature
	units  []client // each once
	byName map[string]client
	all    []pid1.File // dcm's units, and these
}

// newScenario returns the host with these features.
func newScenario(names []string, own []pid1.File, p *parsed) *scenario {
	s := &scenario{parsed: p, byName: make(map[string]client), all: slices.Clone(own)}
	for _, f := range features() {
		if !slices.Contains(names, f.name) {
			continue
		}
		s.parts = append(s.parts, f)
		for _, u := range f.units {
			if _, known := s.byName[u.Name]; !known {
				s.byName[u.Name] = u
				s.units = append(s.units, u)
				s.all = append(s.all, u.File)
			}
		}
	}
	return s
}

// client is a unit of the host that is not dcm's.
type client struct {
	pid1.File
	listed bool  // under [clients]
	gpus   []int // the GPUs of its [[client]] table; nil: it has none
	broken bool  // it fails whatever dcm does
}

// feature is a part of a host.
type feature struct {
	name  string
	about string
	units []client
	paths []string // that exist

	single  bool // unit-of-change = "gpu"
	require bool // require = true
}

func service(name, start string, change ...func(*pid1.File)) pid1.File {
	f := pid1.File{Name: name + ".service", Start: start, StartLimitInterval: 0}
	for _, c := range change {
		c(&f)
	}
	return f
}

func restarts(policy string, after time.Duration) func(*pid1.File) {
	return func(f *pid1.File) { f.Restart, f.RestartDelay = policy, after }
}

func pre(program string) func(*pid1.File) {
	return func(f *pid1.File) { f.StartPre = []string{program} }
}

func unlimited(f *pid1.File) { f.StartLimitInterval = pid1.Forever }

func features() []feature {
	all := []feature{
		{name: "exporter", about: "a client that has all GPUs open", units: []client{{File: service("exporter", "gpu"), listed: true}}},
		{name: "agent", about: "the same, restarted after a failure", units: []client{{File: service("agent", "gpu", restarts("on-failure", time.Second)), listed: true}}},
		{name: "idle", about: "a client without a GPU", units: []client{{File: service("idle", "sleep"), listed: true}}},
		{name: "bound", about: "a unit that is bound to a client", units: []client{
			{File: service("exporter", "gpu"), listed: true},
			{File: service("bound", "sleep", func(f *pid1.File) { f.BindsTo, f.After = []string{"exporter.service"}, []string{"exporter.service"} })}}},
		{name: "tied", about: "a unit that is bound to a client which is restarted after a failure", units: []client{
			{File: service("agent", "gpu", restarts("on-failure", time.Second)), listed: true},
			{File: service("tied", "sleep", func(f *pid1.File) { f.BindsTo, f.After = []string{"agent.service"}, []string{"agent.service"} })}}},
		{name: "loop", about: "a client that systemd restarts for ever, and that is never active", units: []client{
			{File: service("loop", "sleep", pre("fail"), restarts("always", 15*time.Second)), listed: true, broken: true}}},
		{name: "crash", about: "a client that crashes for ever, a moment after its start", units: []client{
			{File: service("crash", "crash", restarts("always", 15*time.Second)), listed: true, broken: true}}},
		{name: "pre", about: "a client that systemd restarts until the driver is loaded", units: []client{
			{File: service("pre", "gpu", pre("driver"), restarts("always", 3*time.Second), unlimited), listed: true}}},
		{name: "slow", about: "a client that is ready after more than five minutes", units: []client{
			{File: service("slow", "ready 330s", func(f *pid1.File) { f.Type, f.TimeoutStart = "notify", pid1.Forever }), listed: true}}},
		{name: "dep", about: "a unit that requires a client", units: dependent(false)},
		{name: "deps", about: "the same, also a client", units: dependent(true)},
		{name: "socket", about: "a client that a socket starts", units: []client{
			{File: service("late", "gpu-late"), listed: true}, {File: pid1.File{Name: "late.socket", Triggers: "late.service"}}}},
		{name: "path", about: "a client that a path starts", units: []client{
			{File: service("watched", "gpu-late"), listed: true}, {File: pid1.File{Name: "watched.path", Triggers: "watched.service", Condition: "/run/watched"}}},
			paths: []string{"/run/watched"}},
		{name: "single", about: "a client for each GPU; all GPUs change together", units: singles()},
		{name: "rounds", about: "a client for each GPU; each GPU changes by itself", units: singles(), single: true},
		{name: "require", about: "clients start only if the profile was applied", require: true},
	}
	return all
}

func dependent(listed bool) []client {
	return []client{
		{File: service("b-dep", "sleep", pre("once"), restarts("on-failure", 3*time.Second)), listed: true},
		{File: service("a-dep", "sleep", func(f *pid1.File) { f.Requires, f.After = []string{"b-dep.service"}, []string{"b-dep.service"} }), listed: listed},
	}
}

func singles() []client {
	var out []client
	for i := range gpuCount {
		out = append(out, client{File: service(fmt.Sprintf("w%d", i), fmt.Sprintf("gpu %d", i), unlimited), gpus: []int{i}})
	}
	return out
}

// gpusOf returns the GPUs of a unit's [[client]] table.
func (s *scenario) gpusOf(unit string) []int { return s.byName[unit].gpus }

// files returns the files at the first boot.
func (s *scenario) files() files {
	f := files{profile: "spx", options: make(map[string]bool)}
	f.admin = s.config(f.profile, f.options)
	f.reboot()
	for _, one := range s.parts {
		for _, p := range one.paths {
			f.paths[p] = true
		}
	}
	return f
}

// config returns dcm.toml with a selection, and with options, see [files.toggle].
func (s *scenario) config(profile string, options map[string]bool) string {
	var list []string
	var apply, tables string
	require, single := options["require"], options["unit-of-change"]
	for _, f := range s.parts {
		require = require != f.require
		single = single != f.single
	}
	if single {
		apply += "unit-of-change = \"gpu\"\nsettle-time = \"2s\"\n"
	}
	for _, c := range s.units {
		switch {
		case options[c.Name]:
		case c.gpus != nil:
			tables += fmt.Sprintf("[[client]]\nunit = %q\ngpus = [%d]\n", c.Name, c.gpus[0])
		case c.listed:
			list = append(list, fmt.Sprintf("%q", c.Name))
		}
	}
	text := fmt.Sprintf("profile = %q\n", profile)
	text += "[clients]\nunits = [" + strings.Join(list, ", ") + "]\n"
	if require {
		text += "require = true\n"
	}
	if options["report"] {
		text += "[daemon]\ndrift = \"report\"\n"
	}
	if apply != "" {
		text += "[apply]\n" + apply
	}
	for _, p := range profiles() {
		text += fmt.Sprintf("[profiles.%s]\ncompute = %q\nmemory = %q\n", p[0], p[1], p[2])
	}
	return text + tables
}

// profiles are the names, compute modes and memory modes of the profiles.
func profiles() [][3]string {
	return [][3]string{{"spx", "SPX", "NPS1"}, {"cpx", "CPX", "NPS1"}, {"cpx4", "CPX", "NPS4"}, {"dpx", "DPX", "NPS1"}}
}
