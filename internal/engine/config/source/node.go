package source

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"dcm/internal/sorting"
)

// Node is a value of a document with its place. Documents of all formats become nodes, and layers are
// merged as nodes, so that each problem has a line.
type Node struct {
	File  string
	Line  int
	Value any  // string, int64, float64, bool, []*Node, Table, or a type that no key accepts
	Bad   bool // a problem was reported
}

// Table has the values of a table by their keys.
type Table map[string]*Node

// At returns the node at a path of keys, or nil.
func (n *Node) At(path ...string) *Node {
	for _, key := range path {
		t, _ := n.Table()
		if n = t[key]; n == nil {
			return nil
		}
	}
	return n
}

// Table returns the value if it is a table.
func (n *Node) Table() (Table, bool) {
	if n == nil {
		return nil, false
	}
	t, ok := n.Value.(Table)
	return t, ok
}

// Items returns the elements of an array; nil for another value.
func (n *Node) Items() []*Node {
	if n == nil {
		return nil
	}
	items, _ := n.Value.([]*Node)
	return items
}

// Place returns "file:line".
func (n *Node) Place() string { return FileLine(n.File, n.Line) }

// Broken reports whether a problem of n or of a value in it was reported.
func (n *Node) Broken() bool {
	if n.Bad {
		return true
	}
	t, _ := n.Table()
	for _, child := range t {
		if child.Broken() {
			return true
		}
	}
	return slices.ContainsFunc(n.Items(), (*Node).Broken)
}

// Keys returns the keys in the order of the document.
func (t Table) Keys() []string {
	return sorting.From(maps.Keys(t), func(a, b string) int {
		return cmp.Or(cmp.Compare(t[a].Line, t[b].Line), cmp.Compare(a, b))
	})
}

// Merge returns base with the values of over. Tables are merged key by key; another value replaces
// the earlier one. Neither argument is changed.
func Merge(base, over *Node) *Node {
	low, ok1 := base.Table()
	high, ok2 := over.Table()
	if !ok1 || !ok2 {
		return over
	}
	sum := make(Table, len(low)+len(high))
	maps.Copy(sum, low)
	for key, n := range high {
		if below := low[key]; below != nil {
			n = Merge(below, n)
		}
		sum[key] = n
	}
	return &Node{File: over.File, Line: over.Line, Value: sum, Bad: base.Bad || over.Bad}
}

// TypeName names the type of a value for a message.
func TypeName(v any) string {
	switch v.(type) {
	case string:
		return "a string"
	case int64:
		return "an integer"
	case float64:
		return "a number with a fraction"
	case bool:
		return "a boolean"
	case []*Node:
		return "an array"
	case Table:
		return "a table"
	case nil:
		return "null"
	}
	return "a date or time"
}

// FormatScalar returns a scalar as TOML, and "" for a table or an array.
func FormatScalar(v any) string {
	switch v := v.(type) {
	case string:
		return QuoteShort(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case bool:
		return strconv.FormatBool(v)
	}
	return ""
}

// DottedKey appends a key to a dotted key. It quotes the key if TOML requires that, and shortens a
// very long one.
func DottedKey(prefix, key string) string {
	if prefix == "" {
		return BareOrQuoted(key)
	}
	return prefix + "." + BareOrQuoted(key)
}

// BareOrQuoted returns a key as in TOML, quoted if necessary.
func BareOrQuoted(key string) string {
	const bare = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	if key != "" && len(key) <= 80 && strings.Trim(key, bare) == "" {
		return key
	}
	return QuoteShort(key)
}

// Text returns the value if it is a string.
func (n *Node) Text() (string, bool) {
	if n == nil {
		return "", false
	}
	s, ok := n.Value.(string)
	return s, ok
}

// Plain returns the values of a node without their places.
func Plain(n *Node) any {
	switch v := n.Value.(type) {
	case Table:
		all := make(map[string]any, len(v))
		for key, child := range v {
			all[key] = Plain(child)
		}
		return all
	case []*Node:
		all := make([]any, len(v))
		for i, item := range v {
			all[i] = Plain(item)
		}
		return all
	}
	return n.Value
}

// Children returns the values of a table; nil for another value.
func Children(n *Node) Table {
	t, _ := n.Table()
	return t
}

// Derive returns a node for a computed value, with the place of from.
func Derive(from *Node, value any) *Node {
	return &Node{File: from.File, Line: from.Line, Value: value}
}

// InBlockOf reports whether the string n begins on the line after its key in the text of its file, as in
// a literal block of YAML. Its lines are then lines of the file.
func (n *Node) InBlockOf(text string) bool {
	value, _ := n.Value.(string)
	begin, _, _ := strings.Cut(value, "\n")
	lines := strings.Split(text, "\n")
	return n.Line < len(lines) && strings.TrimSpace(lines[n.Line]) == strings.TrimSpace(begin)
}
