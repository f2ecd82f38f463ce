package histories

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	seed     = flag.Uint64("seed", 0, "play the random history of this seed, with its journal")
	file     = flag.String("script", "", "play the history of this file, with its journal")
	shorten  = flag.String("minimise", "", "with -seed: print the shortest history whose violations contain this text")
	duration = flag.Duration("histories", 2*time.Second, "how long to play random histories")
	seeds    = flag.Uint64("seeds", 0, "the highest number of random histories; 0 for no limit")
	first    = flag.Uint64("first", 1, "the first seed of the random histories")
	replays  = flag.Uint64("replays", 40, "how many seeds are played twice")
	all      = flag.Bool("all", false, "go on after a violation, and report the first of each kind")
	write    = flag.Bool("write", false, "write the page of violations")
)

func testPlayer(t *testing.T) *player {
	t.Helper()
	p, err := newPlayer("../../../systemd")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func testKnown(t *testing.T) []known {
	t.Helper()
	list, err := readKnown("known")
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// An unknown violation fails. To replay it: go test -run TestHistories -seed N, with -minimise TEXT for the
// shortest history.
func TestHistories(t *testing.T) {
	p := testPlayer(t)
	switch {
	case *seed != 0 && *shorten != "":
		short, out := p.shortest(t, random(*seed), func(v Violation) bool { return strings.Contains(v.String(), *shorten) })
		t.Logf("%d actions:\n%s%v", len(short.actions), short, out.violations)
	case *seed != 0:
		s := random(*seed)
		out := p.play(t, s, os.Stderr)
		t.Logf("%s%v %v", s, out.violations, out.err)
	case *file != "":
		text, err := os.ReadFile(*file)
		if err != nil {
			t.Fatal(err)
		}
		k, err := parseKnown(string(text))
		if err != nil {
			t.Fatal(err)
		}
		out := p.play(t, k.script, os.Stderr)
		t.Logf("%v %v", out.violations, out.err)
	default:
		p.soak(t, testKnown(t))
	}
}

// soak plays random histories.
func (p *player) soak(t *testing.T, list []known) {
	defer debug.SetGCPercent(debug.SetGCPercent(800)) // a history is short, and its memory small
	began, effects, actions, n := time.Now(), 0, 0, *first
	seen, where, reported := make(map[string]int), make(map[string]string), make(map[string]bool)
	for ; time.Since(began) < *duration && (*all || !t.Failed()) && (*seeds == 0 || n < *first+*seeds); n++ {
		out := p.play(t, random(n), nil)
		effects, actions = effects+out.effects, actions+out.actions
		if out.err != nil {
			t.Errorf("seed %d: %v", n, out.err)
		}
		for _, v := range out.violations {
			for _, k := range list {
				if k.open && k.explains(v) {
					if seen[k.name]++; seen[k.name] == 1 {
						where[k.name] = fmt.Sprintf("; first with seed %d, of %d actions", n, out.actions)
					}
					break
				}
			}
		}
		found := slices.DeleteFunc(unexplained(list, out.violations), func(v Violation) bool { return reported[v.kind()] })
		if len(found) > 0 {
			reported[found[0].kind()] = true
			short, _ := p.shortest(t, random(n), func(v Violation) bool {
				return v.Checker == found[0].Checker && len(unexplained(list, []Violation{v})) > 0
			})
			t.Errorf("seed %d violates %q: %s\nshortest history (%d actions):\n%s", n, found[0].Checker, found[0].Detail, len(short.actions), short)
		}
	}
	took := time.Since(began).Seconds()
	t.Logf("seeds %d to %d: %d actions (%.0f a second), %d effects (%.0f a second)", *first, n-1, actions, float64(actions)/took, effects, float64(effects)/took)
	for _, k := range list {
		if k.open {
			t.Logf("known violation %s: seen %d times%s", k.name, seen[k.name], where[k.name])
		}
	}
}

// shortest minimises a history that has such a violation.
func (p *player) shortest(t *testing.T, s script, is func(Violation) bool) (script, outcome) {
	short, _ := minimise(s, func(s script) bool { return slices.ContainsFunc(p.play(t, s, nil).violations, is) })
	return short, p.play(t, short, nil)
}

// An open entry still violates its promise; a repaired one violates none.
func TestKnown(t *testing.T) {
	p := testPlayer(t)
	list := testKnown(t)
	for _, k := range list {
		found := p.play(t, k.script, nil).violations
		still := slices.ContainsFunc(found, k.explains)
		switch {
		case k.open && !still:
			t.Errorf("%s is repaired: change its status to the version that repairs it, and run go test -run TestPage -write (found %v)", k.name, found)
		case !k.open && still:
			t.Errorf("%s is violated again: %v", k.name, found)
		}
		if others := unexplained(list, found); len(others) > 0 {
			t.Errorf("%s: other violations: %v", k.name, others)
		}
	}
}

func TestPage(t *testing.T) {
	want := page(testKnown(t))
	if *write {
		if err := os.WriteFile("known/README.md", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile("known/README.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("known/README.md is not up to date; go test -run TestPage -write (-want +got):\n%s", diff)
	}
}

// Two runs of a seed have the same effects and states.
func TestReplay(t *testing.T) {
	p := testPlayer(t)
	for n := *first; n < *first+*replays; n++ {
		var one, two bytes.Buffer
		p.play(t, random(n), &one)
		p.play(t, random(n), &two)
		if diff := cmp.Diff(strings.Split(one.String(), "\n"), strings.Split(two.String(), "\n")); diff != "" {
			t.Errorf("seed %d: two runs differ (-first +second):\n%s", n, diff)
		}
	}
}
