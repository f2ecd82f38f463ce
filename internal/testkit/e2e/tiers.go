package e2e

import (
	_ "embed"
	"fmt"
	"iter"
	"path"
	"strconv"
	"strings"
)

// A Tier says when a test runs.
type Tier string

const (
	EachCommit    Tier = "test"     // in 'make test', and so in ./install.sh --test
	BeforeRelease Tier = "test-all" // in 'make test-all' only
)

// Group is a test that boots a container, or a row of such a test with a tier of its own.
type Group struct {
	Test    string // name of the test, as package testing writes it
	Tier    Tier
	Seconds int // from the boot of its container to its end; 0 for a row, and for a test that boots several
	Reason  string
}

//go:embed tiers.tsv
var tiers string

// Groups returns all groups by name. The file has one line for each: name, tier, seconds and reason.
func Groups() (map[string]Group, error) {
	groups := make(map[string]Group)
	for n, line := range numbered(tiers) {
		f := strings.Split(line, "\t")
		if len(f) != 4 {
			return nil, fmt.Errorf("tiers.tsv:%d: got %d fields, want name, tier, seconds and reason", n, len(f))
		}
		seconds, err := strconv.Atoi(f[2])
		g := Group{f[0], Tier(f[1]), seconds, f[3]}
		_, twice := groups[g.Test]
		switch {
		case err != nil:
			return nil, fmt.Errorf("tiers.tsv:%d: seconds %q: %w", n, f[2], err)
		case g.Tier != EachCommit && g.Tier != BeforeRelease:
			return nil, fmt.Errorf("tiers.tsv:%d: tier %q: want %s or %s", n, f[1], EachCommit, BeforeRelease)
		case g.Reason == "":
			return nil, fmt.Errorf("tiers.tsv:%d: no reason", n)
		case twice:
			return nil, fmt.Errorf("tiers.tsv:%d: %s is listed twice", n, g.Test)
		}
		groups[g.Test] = g
	}
	return groups, nil
}

// numbered returns the lines of a text with their numbers, without comments and empty lines.
func numbered(text string) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		n := 0
		for line := range strings.Lines(text) {
			n++
			line = strings.TrimRight(line, "\n")
			if line != "" && !strings.HasPrefix(line, "#") && !yield(n, line) {
				return
			}
		}
	}
}

// GroupOf returns the group of a test: its own, or that of the nearest test that contains it. ok is false if
// there is none.
func GroupOf(groups map[string]Group, test string) (g Group, ok bool) {
	for ; test != "."; test = path.Dir(test) {
		if g, ok = groups[test]; ok {
			return g, true
		}
	}
	return Group{}, false
}

// Boots reports whether a test that boots a container runs in the tier of each commit: its own tier, or that of one
// of its rows.
func Boots(groups map[string]Group, test string) bool {
	for name, g := range groups {
		if g.Tier == EachCommit && (name == test || strings.HasPrefix(name, test+"/")) {
			return true
		}
	}
	return false
}
