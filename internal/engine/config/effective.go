package config

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"dcm/internal/engine/config/rule"
	"dcm/internal/engine/config/source"
)

// Setting is a value of the merged configuration, with its place.
type Setting struct {
	Key   string `json:"key"`            // dotted; tables of an array have their number: "client[0].units"
	Value any    `json:"value"`          // a scalar, a list of scalars, or the instances of a MIG geometry
	File  string `json:"file"`           // or "kernel command line"
	Line  int    `json:"line,omitempty"` // from 1; 0 if the value has none

	toml string
}

// TOML returns the value as in a dcm.toml.
func (s Setting) TOML() string { return s.toml }

// Place returns "file:line".
func (s Setting) Place() string { return source.FileLine(s.File, s.Line) }

// Effective returns the values of the merged layers, sorted by key. It has no defaults. The error is that of [Load].
func Effective(p Paths) ([]Setting, error) {
	cfg, err := Load(p)
	if err != nil {
		return nil, err
	}
	layers, problems := p.layers()
	sum := merge(&rule.Checker{}, layers, len(problems) == 0, time.Now()).sum
	if table := source.Children(sum); cfg.Source == CommandLine {
		table["profile"] = &source.Node{File: CommandLine, Value: OrNone(cfg.Selected)}
	}
	for _, key := range []string{"version", "instead"} { // of the files' format, and of a selection until reboot
		delete(source.Children(sum), key)
	}
	return settings(nil, "", sum), nil
}

// settings appends the values of a node that are not tables.
func settings(all []Setting, key string, n *source.Node) []Setting {
	if t, ok := n.Table(); ok {
		for _, name := range slices.Sorted(maps.Keys(t)) {
			all = settings(all, source.DottedKey(key, name), t[name])
		}
		return all
	}
	if items := n.Items(); slices.ContainsFunc(items, isTable) {
		for i, item := range items {
			all = settings(all, fmt.Sprintf("%s[%d]", key, i), item)
		}
		return all
	}
	s := Setting{Key: key, Value: source.Plain(n), File: n.File, Line: n.Line, toml: formatValue(n)}
	if m, ok := rule.AsMIG(n); ok {
		s.Value, s.toml = m.Counts(), rule.FormatMIG(m)
		if m.Off {
			s.Value = "off"
		}
	}
	return append(all, s)
}

func isTable(n *source.Node) bool {
	_, ok := n.Table()
	return ok
}

func formatValue(n *source.Node) string {
	if _, list := n.Value.([]*source.Node); list {
		return source.Array(n.Items(), func(item *source.Node) string { return source.FormatScalar(item.Value) })
	}
	return source.FormatScalar(n.Value)
}
