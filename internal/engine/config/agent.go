package config

import (
	"maps"
	"reflect"

	"dcm/internal/engine/config/rule"
	"dcm/internal/engine/config/source"
)

// readForms parses the layers. A layer is nil if it cannot be parsed, or if it is the file of agents
// and agents are not enabled.
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

// withoutRedefined removes the profiles from sum that an agent defines, since a profile of an agent
// is not merged with another definition.
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
