package rule

import (
	"fmt"
	"maps"
	"slices"

	"dcm/internal/engine/config/source"
)

// Rule checks a value: its type, then its content. A schema consists of rules.
type Rule struct {
	Keys  map[string]Rule // keys of a table, for hints about misplaced keys
	Check func(c *Checker, key string, n *source.Node)
}

// Checker collects the problems of layers.
type Checker struct {
	Root     Rule
	Problems []source.Problem
	Warnings []string
	LeftOut  map[string][]source.Problem // problems of profiles of the Kubernetes form, which do not affect other profiles
}

// leaveOut records a profile with problems.
func (c *Checker) leaveOut(name string, problems []source.Problem) {
	if c.LeftOut == nil {
		c.LeftOut = make(map[string][]source.Problem)
	}
	c.LeftOut[name] = problems
}

// Fail adds a problem of n.
func (c *Checker) Fail(n *source.Node, key string, f *source.Fault) {
	n.Bad = true
	c.Problems = append(c.Problems, source.Problem{
		File: n.File, Line: n.Line, Key: key, Value: source.FormatScalar(n.Value),
		Text: f.Text, Accepted: f.Accepted, Suggestion: f.Suggestion, Alternatives: f.Alternatives,
	})
}

// Warn adds a warning with the place of n.
func (c *Checker) Warn(n *source.Node, format string, args ...any) {
	c.Warnings = append(c.Warnings, n.Place()+": "+fmt.Sprintf(format, args...))
}

// WrongType returns the fault of a value of another type.
func WrongType(want string, n *source.Node) *source.Fault {
	return &source.Fault{Text: "must be " + want + ", not " + source.TypeName(n.Value)}
}

// Scalar is the rule of a value of type T. test, if not nil, checks the value.
func Scalar[T any](want string, test func(T) *source.Fault) Rule {
	return Rule{Check: func(c *Checker, key string, n *source.Node) {
		v, ok := n.Value.(T)
		if !ok {
			c.Fail(n, key, WrongType(want, n))
			return
		}
		if test == nil {
			return
		}
		if f := test(v); f != nil {
			c.Fail(n, key, f)
		}
	}}
}

// Boolean is the rule of a boolean.
func Boolean() Rule { return Scalar[bool]("true or false", nil) }

// OneOf is the rule of a string with a fixed set of values.
func OneOf[S ~string](what string, all ...S) Rule {
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = string(s)
	}
	return Rule{Check: func(c *Checker, key string, n *source.Node) {
		s, ok := n.Value.(string)
		switch {
		case !ok:
			f := WrongType("a string", n)
			f.Accepted = source.Enumerate(names)
			c.Fail(n, key, f)
		case !slices.Contains(names, s):
			c.Fail(n, key, source.NotOneOf("not "+what, s, names))
		}
	}}
}

// List is the rule of an array. whole, if not nil, checks all elements together.
func List(each Rule, whole func(c *Checker, key string, n *source.Node)) Rule {
	return Rule{Keys: each.Keys, Check: func(c *Checker, key string, n *source.Node) {
		items, ok := n.Value.([]*source.Node)
		if !ok {
			c.Fail(n, key, WrongType("an array", n))
			return
		}
		for _, item := range items {
			each.Check(c, key, item)
		}
		if whole != nil {
			whole(c, key, n)
		}
	}}
}

// AnyName replaces the name in a hint.
const AnyName = "NAME"

// Tables is the rule of a table whose keys are user-defined names.
func Tables(name func(string) *source.Fault, each Rule) Rule {
	return Rule{Keys: map[string]Rule{AnyName: each}, Check: func(c *Checker, key string, n *source.Node) {
		t, ok := n.Table()
		if !ok {
			c.Fail(n, key, WrongType("a table", n))
			return
		}
		for _, k := range t.Keys() {
			if f := name(k); f != nil {
				c.Fail(t[k], source.DottedKey(key, k), f)
				continue
			}
			each.Check(c, source.DottedKey(key, k), t[k])
		}
	}}
}

// Table is the rule of a table with fixed keys. whole, if not nil, checks the values together.
func Table(keys map[string]Rule, whole func(c *Checker, key string, n *source.Node)) Rule {
	return Rule{Keys: keys, Check: func(c *Checker, key string, n *source.Node) {
		t, ok := n.Table()
		if !ok {
			c.Fail(n, key, WrongType("a table", n))
			return
		}
		for _, k := range t.Keys() {
			if r, known := keys[k]; known {
				r.Check(c, source.DottedKey(key, k), t[k])
				continue
			}
			c.Fail(t[k], source.DottedKey(key, k), c.unknown(k, keys))
		}
		if whole != nil {
			whole(c, key, n)
		}
	}}
}

// unknown suggests a key of the same table, or else the table that has this key. A key below the wrong
// header is the most frequent mistake in TOML. After [source.MaxShown] problems it suggests nothing.
func (c *Checker) unknown(key string, keys map[string]Rule) *source.Fault {
	if len(c.Problems) > source.MaxShown {
		return &source.Fault{Text: "unknown key"}
	}
	f := source.NotOneOf("unknown key", key, slices.Sorted(maps.Keys(keys)))
	if f.Suggestion != "" {
		return f
	}
	switch homes := c.Root.homes("", key); {
	case len(homes) == 1 && homes[0] == "":
		f.Text = "wrong section: this key belongs at the top of the file, above the first [table]"
	case len(homes) == 1:
		f.Text = fmt.Sprintf("wrong section: this key belongs in [%s]", homes[0])
	case len(homes) == 2:
		f.Text = fmt.Sprintf("wrong section: this key belongs in [%s] or [%s]", homes[0], homes[1])
	}
	return f
}

// homes returns the tables that have the key.
func (r Rule) homes(prefix, key string) []string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(r.Keys)) {
		if k == key && k != AnyName {
			all = append(all, prefix)
		}
		all = append(all, r.Keys[k].homes(source.DottedKey(prefix, k), key)...)
	}
	return all
}

// IndependentTables checks each profile separately. A document may be for different kinds of nodes, so
// problems of a profile matter only where it is selected.
func IndependentTables(profile Rule) Rule {
	return Rule{Keys: map[string]Rule{AnyName: profile}, Check: func(c *Checker, key string, n *source.Node) {
		t, ok := n.Table()
		if !ok {
			c.Fail(n, key, WrongType("a table", n))
			return
		}
		for _, k := range t.Keys() {
			own := &Checker{Root: c.Root}
			if f := ProfileName(k); f != nil {
				own.Fail(t[k], source.DottedKey(key, k), f)
			} else {
				profile.Check(own, source.DottedKey(key, k), t[k])
			}
			c.Warnings = append(c.Warnings, own.Warnings...)
			if len(own.Problems) > 0 {
				c.leaveOut(k, own.Problems)
				delete(t, k)
			}
		}
	}}
}

// Require returns a check for missing keys.
func Require(keys ...string) func(c *Checker, key string, n *source.Node) {
	return func(c *Checker, key string, n *source.Node) {
		for _, k := range keys {
			if n.At(k) == nil {
				c.Problems = append(c.Problems, source.Problem{File: n.File, Line: n.Line, Key: source.DottedKey(key, k), Text: "is missing"})
				n.Bad = true
			}
		}
	}
}
