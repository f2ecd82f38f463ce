package selftest

import (
	"fmt"
	"strings"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
)

// Version is the version of the JSON form of a [Result].
const Version = 1

// Result is the result of a self-test. It contains no names of hosts, users or units, and no
// serial numbers.
type Result struct {
	Version   int       `json:"version"`
	Program   string    `json:"dcm"`
	Kernel    string    `json:"kernel"`
	Boot      string    `json:"boot"`
	Up        time.Time `json:"up"` // when the kernel started
	Libraries []string  `json:"libraries"`
	Changed   bool      `json:"changed"` // the GPUs were taken through all modes
	Began     time.Time `json:"began"`
	Ended     time.Time `json:"ended"`
	Checks    []Check   `json:"checks"`
	Runs      []Timing  `json:"runs"`
	Table     []Row     `json:"table"`
}

// Timing holds the durations of one run in milliseconds.
type Timing struct {
	To     string           `json:"to"`
	Result runstate.Result  `json:"result"`
	Took   int64            `json:"took_ms"`
	Phases map[string]int64 `json:"phases_ms"` // "stop", "reload", "settle", "switch", "start", or a kind of step
	Steps  []Step           `json:"steps"`
}

// Step is one step of a run.
type Step struct {
	Kind partition.Kind    `json:"kind"`
	GPU  partition.Address `json:"gpu,omitempty"`
	From string            `json:"from,omitempty"`
	To   string            `json:"to,omitempty"`
	Took int64             `json:"took_ms"` // -1 if it did not end
}

// NewTiming returns the durations of a run, without the rest of its report. phases are
// durations that were measured elsewhere.
func NewTiming(to string, run runstate.Run, phases map[string]time.Duration) Timing {
	t := Timing{To: to, Result: run.Result, Took: run.Finished.Sub(run.Started).Milliseconds(), Phases: make(map[string]int64), Steps: []Step{}}
	for name, d := range phases {
		t.Phases[name] = d.Milliseconds()
	}
	t.addKinds(run.Steps)
	for i, s := range run.Steps {
		one := Step{s.Kind, s.GPU, s.From, s.To, -1}
		if !s.Finished.IsZero() {
			one.Took = s.Finished.Sub(s.Started).Milliseconds()
		}
		t.Steps = append(t.Steps, one)
		if s.Kind.Reloads() && !s.Finished.IsZero() {
			next := run.Finished
			if i+1 < len(run.Steps) && !run.Steps[i+1].Started.IsZero() {
				next = run.Steps[i+1].Started
			}
			t.Phases["settle"] = next.Sub(s.Finished).Milliseconds()
		}
	}
	return t
}

// addKinds adds the span from the first to the last step of each kind that has no other name
// here.
func (t Timing) addKinds(steps []runstate.Step) {
	from, to := make(map[partition.Kind]time.Time), make(map[partition.Kind]time.Time)
	for _, s := range steps {
		if s.Kind.Reloads() || s.Kind == partition.SwitchCompute || s.Finished.IsZero() {
			continue
		}
		if from[s.Kind].IsZero() || s.Started.Before(from[s.Kind]) {
			from[s.Kind] = s.Started
		}
		if s.Finished.After(to[s.Kind]) {
			to[s.Kind] = s.Finished
		}
	}
	for kind, began := range from {
		t.Phases[string(kind)] = to[kind].Sub(began).Milliseconds()
	}
}

// Phase returns the duration of a phase, "" if it did not occur. With MIG, "switch" is the sum of the
// steps that change instances.
func (t *Timing) Phase(name string) string {
	if t == nil {
		return ""
	}
	ms, ok := t.Phases[name]
	if name == "switch" {
		for _, kind := range []partition.Kind{partition.DestroyInstances, partition.SetMIGMode, partition.CreateInstances} {
			more, found := t.Phases[string(kind)]
			ms, ok = ms+more, ok || found
		}
	}
	if !ok {
		return ""
	}
	return seconds(ms)
}

// Total returns the duration of the change from the stop of the first client to the start of the
// last one, "" without a run.
func (t *Timing) Total() string {
	if t == nil {
		return ""
	}
	return seconds(t.Phases["stop"]+t.Took+t.Phases["start"]) + " s"
}

// seconds returns milliseconds as seconds, "0.3" or "71".
func seconds(ms int64) string {
	if ms < 100_000 {
		return fmt.Sprintf("%.1f", float64(ms)/1000)
	}
	return fmt.Sprintf("%.0f", float64(ms)/1000)
}

// Text returns the table for a terminal.
func Text(rows []Row) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-14s %-44s %-40s %s\n", "MODEL", "FACT", "CLAIMED BY THE SIMULATOR", "SEEN")
	for _, r := range rows {
		mark := ""
		if r.Differs() {
			mark = "   <- differs"
		}
		fmt.Fprintf(&b, "%-14s %-44s %-40s %s%s\n", r.Model, r.Fact, orDash(r.Claimed), orDash(r.Seen), mark)
	}
	return b.String()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
