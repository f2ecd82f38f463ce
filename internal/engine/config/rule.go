package config

import (
	"fmt"
	"maps"
	"slices"
)

// rule judges one value: its type, then what it says. Rules are put together to
// a schema; a new key is one more line there.
type rule struct {
	keys  map[string]rule // of a table, for hints at where a misplaced key belongs
	judge func(c *checker, key string, n *node)
}

// checker collects what rules find in one layer.
type checker struct {
	root     rule
	problems []Problem
	warnings []string
	out      map[string][]Problem // what is wrong with profiles that are left out
}

// leaveOut does without a profile.
func (c *checker) leaveOut(name string, problems []Problem) {
	if c.out == nil {
		c.out = make(map[string][]Problem)
	}
	c.out[name] = problems
}

// fail complains about n.
func (c *checker) fail(n *node, key string, f *fault) {
	n.bad = true
	c.problems = append(c.problems, Problem{
		File: n.file, Line: n.line, Key: key, Value: show(n.value),
		Text: f.text, Accepted: f.accepted, Suggestion: f.suggestion,
	})
}

func (c *checker) warn(n *node, format string, args ...any) {
	c.warnings = append(c.warnings, n.place()+": "+fmt.Sprintf(format, args...))
}

func wrongType(want string, n *node) *fault {
	return &fault{text: "must be " + want + ", not " + describe(n.value)}
}

// scalar is a value of type T; test, if any, returns what is wrong with it.
func scalar[T any](want string, test func(T) *fault) rule {
	return rule{judge: func(c *checker, key string, n *node) {
		v, ok := n.value.(T)
		if !ok {
			c.fail(n, key, wrongType(want, n))
			return
		}
		if test == nil {
			return
		}
		if f := test(v); f != nil {
			c.fail(n, key, f)
		}
	}}
}

func boolean() rule { return scalar[bool]("true or false", nil) }

// oneOf is a string out of a closed set.
func oneOf[S ~string](what string, all ...S) rule {
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = string(s)
	}
	return rule{judge: func(c *checker, key string, n *node) {
		s, ok := n.value.(string)
		switch {
		case !ok:
			f := wrongType("a string", n)
			f.accepted = enumerate(names)
			c.fail(n, key, f)
		case !slices.Contains(names, s):
			c.fail(n, key, notOne("not "+what, s, names))
		}
	}}
}

// list is an array whose elements all follow one rule; whole, if any, judges
// them together.
func list(each rule, whole func(c *checker, key string, n *node)) rule {
	return rule{keys: each.keys, judge: func(c *checker, key string, n *node) {
		items, ok := n.value.([]*node)
		if !ok {
			c.fail(n, key, wrongType("an array", n))
			return
		}
		for _, item := range items {
			each.judge(c, key, item)
		}
		if whole != nil {
			whole(c, key, n)
		}
	}}
}

// anyName stands for the name in a hint.
const anyName = "NAME"

// named is a table whose keys are names that the user chooses.
func named(name func(string) *fault, each rule) rule {
	return rule{keys: map[string]rule{anyName: each}, judge: func(c *checker, key string, n *node) {
		t, ok := n.table()
		if !ok {
			c.fail(n, key, wrongType("a table", n))
			return
		}
		for _, k := range t.keys() {
			if f := name(k); f != nil {
				c.fail(t[k], dotted(key, k), f)
				continue
			}
			each.judge(c, dotted(key, k), t[k])
		}
	}}
}

// fixed is a table with known keys; whole, if any, judges them together.
func fixed(keys map[string]rule, whole func(c *checker, key string, n *node)) rule {
	return rule{keys: keys, judge: func(c *checker, key string, n *node) {
		t, ok := n.table()
		if !ok {
			c.fail(n, key, wrongType("a table", n))
			return
		}
		for _, k := range t.keys() {
			if r, known := keys[k]; known {
				r.judge(c, dotted(key, k), t[k])
				continue
			}
			c.fail(t[k], dotted(key, k), c.unknown(k, keys))
		}
		if whole != nil {
			whole(c, key, n)
		}
	}}
}

// unknown suggests a key of the same table, or else the table that has this key:
// a key written below the wrong header is the usual slip in TOML.
// Nobody reads what a file that is garbage throughout was meant to say.
func (c *checker) unknown(key string, keys map[string]rule) *fault {
	if len(c.problems) > shown {
		return &fault{text: "unknown key"}
	}
	f := notOne("unknown key", key, slices.Sorted(maps.Keys(keys)))
	if f.suggestion != "" {
		return f
	}
	switch homes := c.root.homes("", key); {
	case len(homes) == 1 && homes[0] == "":
		f.text += ": it belongs at the top of the file, above the first [table]"
	case len(homes) == 1:
		f.text += fmt.Sprintf(": it belongs in [%s]", homes[0])
	}
	return f
}

// homes lists the tables that have the key.
func (r rule) homes(prefix, key string) []string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(r.keys)) {
		if k == key && k != anyName {
			all = append(all, prefix)
		}
		all = append(all, r.keys[k].homes(dotted(prefix, k), key)...)
	}
	return all
}
