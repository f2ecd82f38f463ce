package daemon

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"dcm/internal/gpu/partition"
)

func TestMatches(t *testing.T) {
	for _, tt := range []struct {
		pattern, name string
		want          bool
	}{
		{"vllm@*.service", "vllm@3.service", true},
		{"vllm@*.service", "vllm@.service", true},
		{"vllm@*.service", "vllm.service", false},
		{"vllm@*.service", "vllm@3.service.x", false},
		{"a.service", "a.service", true},
		{"a.service", "a.services", false},
		{"*-llm-*.service", "x-llm-llm-y.service", true},
		{"*-llm-*.service", "llm.service", false},
		{"*.service", `dev-\x2d.service`, true},
	} {
		if got := matches(tt.pattern, tt.name); got != tt.want {
			t.Errorf("matches(%q, %q) = %t, want %t", tt.pattern, tt.name, got, tt.want)
		}
	}
}

// worked returns parts such as "0:a 1:b,c", GPUs and their units.
func worked(text string) []part {
	var out []part
	for _, field := range strings.Fields(text) {
		gpu, units, _ := strings.Cut(field, ":")
		p := part{gpus: []partition.Address{partition.Address(gpu)}}
		if units != "" {
			p.units = strings.Split(units, ",")
		}
		out = append(out, p)
	}
	return out
}

func shown(parts []part) string {
	var out []string
	for _, p := range parts {
		var gpus []string
		for _, a := range p.gpus {
			gpus = append(gpus, string(a))
		}
		out = append(out, strings.Join(gpus, "+"))
	}
	return strings.Join(out, " ")
}

// One part changes at a time. Clients that an earlier run has left down, and that only the changes of other parts start, delay
// a part that stops no unit no more.
func TestSelection_Single(t *testing.T) {
	for _, tt := range []struct{ parts, down, starts, want string }{
		{"0:a 1:b", "", "", "0"},
		{"0:a 1:b", "b", "", "1"},
		{"0:a 1:b", "a b", "", ""},
		{"0:a 1:b", "a b", "a b", "0"},
		{"0:a 1:b 2:c", "b c", "b c", "1"},
		{"0:a 1:b", "a b x", "a b", ""},
	} {
		s := selection{parts: worked(tt.parts), down: asDown(strings.Fields(tt.down)), single: true}
		for i := range s.parts {
			s.parts[i].starts = slices.DeleteFunc(slices.Clone(s.parts[i].units), func(u string) bool { return !slices.Contains(strings.Fields(tt.starts), u) })
		}
		if got := shown(s.next()); got != tt.want {
			t.Errorf("parts %s, down %q, to start %q: next %q, want %q", tt.parts, tt.down, tt.starts, got, tt.want)
		}
	}
}

func TestSelection_Next(t *testing.T) {
	two := []Budget{{Units: []string{"v*"}, MaxDown: 2}}
	for _, tt := range []struct {
		name, parts string
		budgets     []Budget
		down        string
		single      bool
		want        string
	}{
		{"no budget", "0:v0 1:v1 2:v2", nil, "", false, "0 1 2"},
		{"two at a time", "0:v0 1:v1 2:v2", two, "", false, "0 1"},
		{"one is down", "0:v0 1:v1 2:v2", two, "v7", false, "0"},
		{"too many are down", "0:v0 1:v1", two, "v5 v6 v7", false, ""},
		{"the unit that is down", "0:v0 1:v1 2:v2", two, "v1 v5 v6", false, "1"},
		{"units of no budget", "0:v0 1:x 2:v2 3:v3 4:", two, "", false, "0 1 2 4"},
		{"a part that does not fit is skipped", "0:v0,v1 1:v2", two, "v7", false, "1"},
		{"two budgets", "0:v0,w0 1:v1,w1 2:v2", append(two, Budget{Units: []string{"w*"}, MaxDown: 1}), "", false, "0 2"},
		{"one unit in two parts", "0:v0 1:v0 2:v1 3:v2", two, "", false, "0 1 2"},
		{"one at a time", "0:v0 1:v1", nil, "", true, "0"},
		{"one at a time, and another is down", "0:v0 1:v1", nil, "v7", true, ""},
		{"one at a time, and its own is down", "0:v0 1:v1", nil, "v1", true, "1"},
	} {
		down := make(map[string]string)
		for _, u := range strings.Fields(tt.down) {
			down[u] = "failed"
		}
		s := selection{parts: worked(tt.parts), budgets: tt.budgets, down: down, single: tt.single}
		if got := shown(s.next()); got != tt.want {
			t.Errorf("%s: next round %q, want %q", tt.name, got, tt.want)
		}
	}
}

// A client of several changing GPUs starts once, if a budget permits that.
func TestMerge(t *testing.T) {
	two := []Budget{{Units: []string{"v*"}, MaxDown: 2}}
	for _, tt := range []struct{ name, parts, want string }{
		{"nothing shared", "0:v0 1:v1", "0 1"},
		{"a client of two GPUs", "0:v0 1:v1 2:v1 3:v3", "0 1+2 3"},
		{"an observer", "0:v0,o 1:v1,o", "0 1"},
		{"a chain that fits", "0:v0 1:v0,v1 2:v1", "0+1+2"},
		{"a chain that joins two", "0:v0 1:v1 2:v0,v1", "0+1+2"},
		{"a chain that exceeds the budget", "0:v0 1:v0,v1 2:v1,v2 3:v2", "0 1 2 3"},
	} {
		got := merge(worked(tt.parts), two, func(unit string) bool { return unit != "o" })
		if shown(got) != tt.want {
			t.Errorf("%s: parts %q, want %q", tt.name, shown(got), tt.want)
		}
	}
}

func TestSelection_Impossible(t *testing.T) {
	s := selection{parts: worked("0:v0 1:v1,v2,v3"), budgets: []Budget{{Units: []string{"v*"}, MaxDown: 2}}}
	if p, b := s.impossible(); p == nil || p.gpus[0] != "1" || b.MaxDown != 2 {
		t.Errorf("got part %v of budget %v, want GPU 1", p, b)
	}
	s.down = map[string]string{"v1": "inactive", "v2": "inactive", "v3": "inactive"}
	if p, _ := s.impossible(); p != nil {
		t.Errorf("got part %v, want none: its units are already down", p)
	}
}

// Properties of random selections: a round never exceeds a budget, and all changes are possible one
// after the other.
func TestSelection_Random(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for n := range 5000 {
		s := selection{budgets: []Budget{{Units: []string{"v*"}, MaxDown: 1 + r.IntN(3)}, {Units: []string{"*"}, MaxDown: 2 + r.IntN(4)}}, down: make(map[string]string)}
		for gpu := range 8 {
			p := part{gpus: []partition.Address{partition.Address(fmt.Sprint(gpu))}}
			for _, kind := range []string{"v", "w"} {
				if r.IntN(3) > 0 {
					p.units = append(p.units, fmt.Sprint(kind, gpu-r.IntN(2)))
				}
			}
			s.parts = append(s.parts, p)
		}
		for range r.IntN(3) {
			s.down[fmt.Sprint([]string{"v", "w"}[r.IntN(2)], r.IntN(9))] = "failed"
		}
		s.parts = merge(s.parts, s.budgets, func(string) bool { return true })
		var units []string
		for _, p := range s.next() {
			units = append(units, p.units...)
		}
		for _, b := range s.budgets {
			before, after := 0, make(map[string]bool)
			for u := range s.down {
				if b.counts(u) {
					before++
					after[u] = true
				}
			}
			for _, u := range units {
				if b.counts(u) {
					after[u] = true
				}
			}
			if len(after) > before && len(after) > b.MaxDown {
				t.Fatalf("seed %d, trial %d: %d units down with %s, want at most %d", seed, n, len(after), b, b.MaxDown)
			}
		}
		clear(s.down)
		for rounds := 0; len(s.parts) > 0; rounds++ {
			round := s.next()
			if impossible, _ := s.impossible(); len(round) == 0 && impossible == nil || rounds > 8 {
				t.Fatalf("seed %d, trial %d: no round for %v", seed, n, s.parts)
			} else if len(round) == 0 {
				break
			}
			s.parts = slices.DeleteFunc(s.parts, func(p part) bool {
				return slices.ContainsFunc(round, func(q part) bool { return q.gpus[0] == p.gpus[0] })
			})
		}
	}
}
