package config

import (
	"maps"
	"reflect"
)

// agentForm is all that the file of agents may say: how GPUs are divided, and nothing
// that names a program, a library or a unit, or that is the administrator's to allow.
func agentForm() rule {
	all := schema().keys
	return fixed(map[string]rule{"version": all["version"], "profile": all["profile"], "profiles": all["profiles"]}, nil)
}

func readAgent(c *checker, l layer) *node {
	root, broken := parseTOML(l.file, l.text)
	if broken != nil {
		c.problems = append(c.problems, *broken)
		return nil
	}
	c.root = agentForm()
	c.root.judge(c, "", root)
	return root
}

// readForms reads the layers: that of agents as the others say, and nil where it does not
// count. Others that cannot be read are nil, too.
func readForms(c *checker, layers []layer) []*node {
	all, enabled := make([]*node, len(layers)), false
	for i, l := range layers {
		if l.agent {
			continue
		}
		all[i] = l.form(c, l)
		if n := all[i].at("agent", "enabled"); n != nil {
			enabled, _ = n.value.(bool)
		}
	}
	for i, l := range layers {
		switch {
		case l.agent && enabled:
			all[i] = l.form(c, l)
		case l.agent:
			c.warnings = append(c.warnings, l.file+": has no effect: [agent] enabled is not true")
		}
	}
	return all
}

// withoutRedefined takes the profiles out of sum that an agent defines: what it says of one is
// all of it, and not to be mixed with what somebody else has said under that name.
func withoutRedefined(c *checker, sum, agent *node) *node {
	below, own := tables(sum.at("profiles")), tables(agent.at("profiles"))
	rest := maps.Clone(below)
	for _, name := range own.keys() {
		was := below[name]
		if was == nil {
			continue
		}
		if !reflect.DeepEqual(said(was), said(own[name])) {
			c.warn(was, "profile %s has no effect: an agent defines it, at %s", clip(name), own[name].place())
		}
		delete(rest, name)
	}
	if len(rest) == len(below) {
		return sum
	}
	out := maps.Clone(tables(sum))
	out["profiles"] = derived(sum.at("profiles"), rest)
	return derived(sum, out)
}
