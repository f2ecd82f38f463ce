package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"dcm/internal/sanitize"
	"dcm/internal/sorting"
)

// Load reads every layer and returns their sum, or an [*Errors] with everything
// that is wrong with any of them.
func Load(p Paths) (*Config, error) {
	layers, problems := p.layers()
	line, err := os.ReadFile(p.Cmdline)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		problems = append(problems, Problem{File: commandLine, Text: "cannot read it: " + cause(err)})
	}
	return assemble(layers, problems, string(line))
}

// LoadFile reads one file as the only layer, as strictly as [Load]. The error is
// [fs.ErrNotExist] if there is no such file.
func LoadFile(p Paths, file string) (*Config, error) {
	r := p.newReader()
	f, ok := r.find(sanitize.Named(file))
	if !ok && len(r.problems) == 0 {
		return nil, fs.ErrNotExist
	}
	line, err := os.ReadFile(p.Cmdline)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, sanitize.Error(err)
	}
	var layers []layer
	if ok {
		layers = readLayers(r, []foundLayer{{foundFile: f, form: readTOML}})
	}
	return assemble(layers, r.problems, string(line))
}

// readTOML is the form of all files but one.
func readTOML(c *checker, l layer) *node {
	root, broken := parseTOML(l.file, l.text)
	if broken != nil {
		c.problems = append(c.problems, *broken)
		return nil
	}
	c.root = schema()
	c.root.judge(c, "", root)
	return root
}

// assemble is Load without the files: the layers, what was wrong with reading
// others, and the kernel command line.
func assemble(layers []layer, problems []Problem, cmdline string) (*Config, error) {
	c := &checker{problems: problems}
	sum := &node{value: table{}}
	whole := len(problems) == 0
	var lasting choice
	ended := ""
	for i, root := range readForms(c, layers) {
		l := layers[i]
		if root == nil {
			whole = whole && l.agent
			continue
		}
		if l.agent {
			sum = withoutRedefined(c, sum, root)
		}
		if l.runtime {
			if ended = over(root, lasting); ended != "" {
				continue
			}
		} else {
			warnHidden(c, sum.at("profile"), root.at("profile"))
		}
		sum = layOver(sum, root)
		if !l.runtime {
			lasting = says(sum)
		}
	}
	checkProfiles(c, sum)
	checkReservations(c, sum.at("reservation"))
	pick := selectProfile(c, sum, cmdline, whole)
	if len(c.problems) > 0 {
		return nil, &Errors{sorted(c.problems, layers)}
	}
	cfg := build(sum)
	cfg.Unusable = leaveOut(c, cfg)
	cfg.Selected, cfg.Source, cfg.Warnings = pick.name, pick.source, c.warnings
	cfg.Persistent, cfg.LastingSource, cfg.Ended = lasting.name, lasting.source, ended
	if pick.name != "" {
		cfg.Profile, _ = cfg.Lookup(pick.name) // judged
	}
	return cfg, nil
}

// leaveOut warns of the profiles that were left out, and that no layer defines
// otherwise.
func leaveOut(c *checker, cfg *Config) map[string]*Errors {
	var all map[string]*Errors
	for _, name := range slices.Sorted(maps.Keys(c.out)) {
		if _, defined := cfg.Profiles[name]; defined {
			continue
		}
		if all == nil {
			all = make(map[string]*Errors)
		}
		all[name] = &Errors{c.out[name]}
		c.warnings = append(c.warnings, leftOut(name, c.out[name]))
	}
	return all
}

// leftOut tells of the first problem of a profile that is left out.
func leftOut(name string, problems []Problem) string {
	first, more := problems[0], ""
	if n := len(problems) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d more)", n)
	}
	at := place(first.File, first.Line)
	first.File, first.Line = "", 0
	return fmt.Sprintf("%s: profile %s cannot be selected: %s%s", at, clip(name), first, more)
}

// over says of a selection until reboot that it has ended: the files that stay do not
// select any more what they selected when it was made. Of all else it says "".
func over(root *node, lasting choice) string {
	before, ok := root.at("instead").text()
	if !ok || orNothing(before) == lasting.name {
		return ""
	}
	at := lasting.source
	if at == "" {
		at = "nothing"
	}
	name, _ := root.at("profile").text()
	return fmt.Sprintf("the selection of %s until reboot has ended: it was made instead of %s, and now %s selects %s",
		orNone(name), orNone(before), at, orNone(lasting.name))
}

// says is what the files select, right or wrong.
func says(root *node) choice {
	n := root.at("profile")
	if n == nil {
		return choice{}
	}
	name, _ := n.text()
	return choice{orNothing(name), n.place()}
}

// warnHidden warns of a selection that an administrator wrote and another layer
// hides: who edits it would wonder why nothing happens.
func warnHidden(c *checker, before, now *node) {
	if before == nil || now == nil || before.value == now.value || before.value == "" || before.value == None {
		return
	}
	c.warnings = append(c.warnings, fmt.Sprintf("%s: profile = %s has no effect: %s selects %s",
		before.place(), clip(fmt.Sprint(before.value)), now.place(), clip(fmt.Sprint(now.value))))
}

// sorted puts problems in the order of the layers, then of their lines.
func sorted(problems []Problem, layers []layer) []Problem {
	rank := func(p Problem) int {
		i := slices.IndexFunc(layers, func(l layer) bool { return l.file == p.File })
		if i < 0 && p.File == commandLine {
			return len(layers)
		}
		return i
	}
	sorting.By(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Line, b.Line))
	})
	return problems
}

// checkProfiles judges what only the sum of the layers can show.
func checkProfiles(c *checker, root *node) {
	all := tables(root.at("profiles"))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		n := all[name]
		if _, isTable := n.table(); isTable && !n.bad {
			checkProfile(c, n, dotted("profiles", name))
		}
	}
}

// checkProfile judges that a profile says once of each side of a node how it is to be divided,
// and of one of them at least.
func checkProfile(c *checker, n *node, key string) {
	compute, mig, group := n.at("compute"), n.at("mig"), n.at("group")
	among := func(what string) bool {
		return slices.ContainsFunc(group.items(), func(g *node) bool { return g.at(what) != nil })
	}
	twice := func(what string, whole *node, text, accepted string) {
		at, in, other := group, "group", whole
		if group.file != n.file { // the last layer did not add the groups: it added the whole
			at, in, other = whole, what, group
		}
		c.fail(at, dotted(key, in), &fault{text: text + ", also at " + other.place(), accepted: accepted})
	}
	switch {
	case compute != nil && among("compute"):
		twice("compute", compute, "the profile says its compute mode twice", "either compute for the whole node, or groups")
	case mig != nil && among("mig"):
		twice("mig", mig, "the profile says its MIG geometry twice", "either mig for the whole node, or groups")
	case n.at("memory") != nil && compute == nil && !among("compute"):
		c.fail(n, key, noCompute(key))
	case compute == nil && mig == nil && group == nil:
		c.fail(n, key, noCompute(key))
	}
}

func noCompute(key string) *fault {
	return &fault{text: "the profile says no compute mode", accepted: `compute = "…" for the whole node, or [[` + key + `.group]]; mig for NVIDIA's GPUs`}
}
