package config

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"dcm/internal/sorting"
)

// node is one value of a document, with the place it stands at. Documents of
// every format become nodes, and layers are merged as nodes, so that a problem
// found late still knows its line.
type node struct {
	file  string
	line  int
	value any  // string, int64, float64, bool, []*node, table, or something no key wants
	bad   bool // already complained about
}

type table map[string]*node

// at returns the node at a path of keys, or nil.
func (n *node) at(path ...string) *node {
	for _, key := range path {
		t, _ := n.table()
		if n = t[key]; n == nil {
			return nil
		}
	}
	return n
}

func (n *node) table() (table, bool) {
	if n == nil {
		return nil, false
	}
	t, ok := n.value.(table)
	return t, ok
}

func (n *node) items() []*node {
	if n == nil {
		return nil
	}
	items, _ := n.value.([]*node)
	return items
}

func (n *node) place() string { return place(n.file, n.line) }

// broken reports whether there was a complaint about n or anything in it.
func (n *node) broken() bool {
	if n.bad {
		return true
	}
	t, _ := n.table()
	for _, child := range t {
		if child.broken() {
			return true
		}
	}
	return slices.ContainsFunc(n.items(), (*node).broken)
}

// keys returns the keys in the order they stand in the document.
func (t table) keys() []string {
	return sorting.From(maps.Keys(t), func(a, b string) int {
		return cmp.Or(cmp.Compare(t[a].line, t[b].line), cmp.Compare(a, b))
	})
}

// merge lays over on base: tables key by key, anything else replaces. Neither is
// changed.
func merge(base, over *node) *node {
	low, ok1 := base.table()
	high, ok2 := over.table()
	if !ok1 || !ok2 {
		return over
	}
	sum := make(table, len(low)+len(high))
	maps.Copy(sum, low)
	for key, n := range high {
		if below := low[key]; below != nil {
			n = merge(below, n)
		}
		sum[key] = n
	}
	return &node{file: over.file, line: over.line, value: sum, bad: base.bad || over.bad}
}

// describe names the type of a value for a message.
func describe(v any) string {
	switch v.(type) {
	case string:
		return "a string"
	case int64:
		return "an integer"
	case float64:
		return "a number with a fraction"
	case bool:
		return "a boolean"
	case []*node:
		return "an array"
	case table:
		return "a table"
	case nil:
		return "null"
	}
	return "a date or time"
}

// show writes a scalar as TOML would; tables and arrays are not shown.
func show(v any) string {
	switch v := v.(type) {
	case string:
		return clip(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case bool:
		return strconv.FormatBool(v)
	}
	return ""
}

// dotted appends a key to a dotted one, quoted where TOML wants that, and cut
// where no name of ours is that long.
func dotted(prefix, key string) string {
	if prefix == "" {
		return bareOrQuoted(key)
	}
	return prefix + "." + bareOrQuoted(key)
}

func bareOrQuoted(key string) string {
	const bare = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	if key != "" && len(key) <= 80 && strings.Trim(key, bare) == "" {
		return key
	}
	return clip(key)
}

func (n *node) text() (string, bool) {
	if n == nil {
		return "", false
	}
	s, ok := n.value.(string)
	return s, ok
}

// said is what a node says, without where it stands.
func said(n *node) any {
	switch v := n.value.(type) {
	case table:
		all := make(map[string]any, len(v))
		for key, child := range v {
			all[key] = said(child)
		}
		return all
	case []*node:
		all := make([]any, len(v))
		for i, item := range v {
			all[i] = said(item)
		}
		return all
	}
	return n.value
}

func tables(n *node) table {
	t, _ := n.table()
	return t
}

// derived is a value made of others, standing where from stands.
func derived(from *node, value any) *node {
	return &node{file: from.file, line: from.line, value: value}
}
