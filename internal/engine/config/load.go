package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"dcm/internal/engine/config/rule"
	"dcm/internal/engine/config/source"
	"dcm/internal/sanitize"
)

// Load reads and merges all layers. The error is a [*source.Errors] with all problems.
func Load(p Paths) (*Config, error) {
	layers, problems := p.layers()
	line, err := os.ReadFile(p.Cmdline)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		problems = append(problems, source.Problem{File: CommandLine, Text: "cannot read it: " + source.Cause(err)})
	}
	return assemble(layers, problems, string(line))
}

// LoadFile reads one file as the only layer, with the same checks as [Load]. The error is
// [fs.ErrNotExist] if the file does not exist.
func LoadFile(p Paths, file string) (*Config, error) {
	r := p.NewReader()
	f, ok := r.Find(sanitize.Named(file))
	if !ok && len(r.Problems) == 0 {
		return nil, fs.ErrNotExist
	}
	line, err := os.ReadFile(p.Cmdline)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, sanitize.Error(err)
	}
	var layers []layer
	if ok {
		layers = readLayers(r, []foundLayer{{File: f, form: tomlForm(schema)}})
	}
	return assemble(layers, r.Problems, string(line))
}

// assemble merges and checks layers. problems are those of files that could not be read.
func assemble(layers []layer, problems []source.Problem, cmdline string) (*Config, error) {
	c := &rule.Checker{Problems: problems}
	all := merge(c, layers, len(problems) == 0, time.Now())
	sum := all.sum
	checkProfiles(c, sum)
	checkClients(c, sum.At("client"))
	checkReservations(c, sum.At("reservation"), sum.At("client"))
	pick := selectProfile(c, sum, cmdline, all.whole)
	if len(c.Problems) > 0 {
		return nil, source.NewErrors(sorted(c.Problems, layers)...)
	}
	cfg := build(sum)
	cfg.Unusable = LeaveOut(c, cfg)
	cfg.Selected, cfg.Source, cfg.Warnings = pick.name, pick.source, c.Warnings
	warnBudgets(cfg)
	cfg.Persistent, cfg.LastingSource, cfg.Ended = all.lasting.name, all.lasting.source, all.ended
	cfg.Unconfirmed, cfg.Expired = all.unconfirmed, all.expired
	if pick.name != "" {
		var err error
		if cfg.Profile, err = cfg.Lookup(pick.name); err != nil { // two that cannot be joined: other names are checked before
			return nil, source.NewErrors(source.Problem{File: pick.source, Key: "profile", Value: source.Quote(pick.name), Text: err.Error()})
		}
	}
	return cfg, nil
}

// LeaveOut warns of the profiles with errors that no other layer defines, and returns them.
func LeaveOut(c *rule.Checker, cfg *Config) map[string]*source.Errors {
	var all map[string]*source.Errors
	for _, name := range slices.Sorted(maps.Keys(c.LeftOut)) {
		if _, defined := cfg.Profiles[name]; defined {
			continue
		}
		if all == nil {
			all = make(map[string]*source.Errors)
		}
		all[name] = source.NewErrors(c.LeftOut[name]...)
		c.Warnings = append(c.Warnings, leftOut(name, c.LeftOut[name]))
	}
	return all
}

// leftOut returns the warning about a profile with errors. It has the first problem.
func leftOut(name string, problems []source.Problem) string {
	first, more := problems[0], ""
	if n := len(problems) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d more)", n)
	}
	at := source.FileLine(first.File, first.Line)
	first.File, first.Line = "", 0
	return fmt.Sprintf("%s: profile %s cannot be selected: %s%s", at, source.QuoteShort(name), first, more)
}

// sorted returns problems in the order of the layers, then of their lines.
func sorted(problems []source.Problem, layers []layer) []source.Problem {
	var files []string
	for _, l := range layers {
		files = append(files, l.file)
	}
	return source.Sort(problems, append(files, CommandLine)...)
}

// checkProfiles checks the profiles after the merge of all layers.
func checkProfiles(c *rule.Checker, root *source.Node) {
	all := source.Children(root.At("profiles"))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		n := all[name]
		if _, isTable := n.Table(); isTable && !n.Bad {
			checkProfile(c, n, source.DottedKey("profiles", name))
		}
	}
}

// checkProfile checks that a profile sets compute, mig or both, each either for the whole node or in
// groups.
func checkProfile(c *rule.Checker, n *source.Node, key string) {
	compute, mig, group := n.At("compute"), n.At("mig"), n.At("group")
	among := func(what string) bool {
		return slices.ContainsFunc(group.Items(), func(g *source.Node) bool { return g.At(what) != nil })
	}
	twice := func(what string, whole *source.Node, text, accepted string) {
		at, in, other := group, "group", whole
		if group.File != n.File { // the last layer added the value for the whole node
			at, in, other = whole, what, group
		}
		c.Fail(at, source.DottedKey(key, in), &source.Fault{Text: text + ", also at " + other.Place(), Accepted: accepted})
	}
	switch {
	case compute != nil && among("compute"):
		twice("compute", compute, "compute mode set twice", "either compute for the whole node, or groups")
	case mig != nil && among("mig"):
		twice("mig", mig, "MIG geometry set twice", "either mig for the whole node, or groups")
	case n.At("memory") != nil && compute == nil && !among("compute"):
		c.Fail(n, key, noCompute(key))
	case compute == nil && mig == nil && group == nil:
		c.Fail(n, key, noCompute(key))
	}
}

func noCompute(key string) *source.Fault {
	return &source.Fault{Text: "no compute mode set", Accepted: `compute = "…" for the whole node, or [[` + key + `.group]]; mig for NVIDIA's GPUs`}
}
