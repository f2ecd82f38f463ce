package rule

import (
	"dcm/internal/engine/config/source"
	"fmt"
	"maps"
	"slices"
)

// Rule judges one value: its type, then what it says. Rules are put together to
// a schema; a new key is one more line there.
type Rule struct {
	Keys  map[string]Rule // of a table, for hints at where a misplaced key belongs
	Check func(c *Checker, key string, n *source.Node)
}

// Checker collects what rules find in one layer.
type Checker struct {
	Root     Rule
	Problems []source.Problem
	Warnings []string
	LeftOut  map[string][]source.Problem // what is wrong with profiles that are left out
}

// leaveOut does without a profile.
func (c *Checker) leaveOut(name string, problems []source.Problem) {
	if c.LeftOut == nil {
		c.LeftOut = make(map[string][]source.Problem)
	}
	c.LeftOut[name] = problems
}

// Fail complains about n.
func (c *Checker) Fail(n *source.Node, key string, f *source.Fault) {
	n.Bad = true
	c.Problems = append(c.Problems, source.Problem{
		File: n.File, Line: n.Line, Key: key, Value: source.FormatScalar(n.Value),
		Text: f.Text, Accepted: f.Accepted, Suggestion: f.Suggestion,
	})
}

func (c *Checker) Warn(n *source.Node, format string, args ...any) {
	c.Warnings = append(c.Warnings, n.Place()+": "+fmt.Sprintf(format, args...))
}

func WrongType(want string, n *source.Node) *source.Fault {
	return &source.Fault{Text: "must be " + want + ", not " + source.TypeName(n.Value)}
}

// Scalar is a value of type T; test, if any, returns what is wrong with it.
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

func Boolean() Rule { return Scalar[bool]("true or false", nil) }

// OneOf is a string out of a closed set.
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

// List is an array whose elements all follow one rule; whole, if any, judges
// them together.
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

// AnyName stands for the name in a hint.
const AnyName = "NAME"

// Tables is a table whose keys are names that the user chooses.
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

// Table is a table with known keys; whole, if any, judges them together.
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

// unknown suggests a key of the same table, or else the table that has this key:
// a key written below the wrong header is the usual slip in TOML.
// Nobody reads what a file that is garbage throughout was meant to say.
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
		f.Text += ": it belongs at the top of the file, above the first [table]"
	case len(homes) == 1:
		f.Text += fmt.Sprintf(": it belongs in [%s]", homes[0])
	}
	return f
}

// homes lists the tables that have the key.
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

// IndependentTables judges each profile by itself. A document is of a fleet of unlike nodes:
// what is wrong with a profile counts where that is selected.
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

// Require complains of keys that are not there.
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
