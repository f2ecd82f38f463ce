package config

import (
	"dcm/internal/engine/config/rule"
	"dcm/internal/engine/config/source"
	"maps"
	"reflect"
)

// readForms reads the layers: that of agents as the others say, and nil where it does not
// count. Others that cannot be read are nil, too.
func readForms(c *rule.Checker, layers []layer) []*source.Node {
	all, enabled := make([]*source.Node, len(layers)), false
	for i, l := range layers {
		if l.agent {
			continue
		}
		all[i] = l.form(c, l)
		if n := all[i].At("agent", "enabled"); n != nil {
			enabled, _ = n.Value.(bool)
		}
	}
	for i, l := range layers {
		switch {
		case l.agent && enabled:
			all[i] = l.form(c, l)
		case l.agent:
			c.Warnings = append(c.Warnings, l.file+": has no effect: [agent] enabled is not true")
		}
	}
	return all
}

// withoutRedefined takes the profiles out of sum that an agent defines: what it says of one is
// all of it, and not to be mixed with what somebody else has said under that name.
func withoutRedefined(c *rule.Checker, sum, agent *source.Node) *source.Node {
	below, own := source.Children(sum.At("profiles")), source.Children(agent.At("profiles"))
	rest := maps.Clone(below)
	for _, name := range own.Keys() {
		was := below[name]
		if was == nil {
			continue
		}
		if !reflect.DeepEqual(source.Plain(was), source.Plain(own[name])) {
			c.Warn(was, "profile %s has no effect: an agent defines it, at %s", source.QuoteShort(name), own[name].Place())
		}
		delete(rest, name)
	}
	if len(rest) == len(below) {
		return sum
	}
	out := maps.Clone(source.Children(sum))
	out["profiles"] = source.Derive(sum.At("profiles"), rest)
	return source.Derive(sum, out)
}
