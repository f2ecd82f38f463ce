package config

import (
	"maps"
	"slices"
	"strings"

	"dcm/internal/engine/config/rule"
	"dcm/internal/engine/config/source"
	"dcm/internal/gpu/partition"
)

// CommandLine replaces the file name in problems of the kernel command line.
const CommandLine = "kernel command line"

// choice is a selection with its place.
type choice struct{ name, source string }

// selectProfile returns the selected profile. The kernel command line overrides the files. whole is
// false if a file could not be read, in which the profile may be defined.
func selectProfile(c *rule.Checker, root *source.Node, cmdline string, whole bool) choice {
	all := slices.Sorted(maps.Keys(source.Children(root.At("profiles"))))
	judge := func(n *source.Node) {
		name, ok := n.Value.(string)
		if !ok || n.Bad || name == "" || name == rule.None || slices.Contains(all, name) {
			return
		}
		known := func(name string) bool {
			_, predefined := partition.Predefined(name)
			return c.LeftOut[name] == nil && (predefined || slices.Contains(all, name))
		}
		first, second, two := strings.Cut(name, "+")
		if known(name) || two && known(first) && known(second) {
			return
		}
		if why := c.LeftOut[name]; why != nil {
			n.Bad = true
			c.Problems = append(c.Problems, why...)
			return
		}
		f := rule.NoProfile(name, all)
		if !whole {
			f.Text += " in the files that can be read"
		}
		c.Fail(n, "profile", f)
	}
	var pick choice
	if n := root.At("profile"); n != nil {
		judge(n)
		pick = says(root)
	}
	switch name, given, valued := parameter(cmdline); {
	case given && !valued:
		c.Problems = append(c.Problems, source.Problem{File: CommandLine, Key: "dcm.profile", Text: "has no value", Accepted: "dcm.profile=NAME, dcm.profile=none"})
	case given:
		n := &source.Node{File: CommandLine, Value: name}
		judge(n)
		if last := len(c.Problems) - 1; n.Bad && c.Problems[last].File == CommandLine {
			c.Problems[last].Key = "dcm.profile"
		}
		pick = choice{name, CommandLine}
	}
	if pick.name == rule.None {
		pick.name = ""
	}
	return pick
}

// parameter returns the value of the last dcm.profile= on a kernel command line.
// valued is false if it was last given without "=".
func parameter(cmdline string) (value string, given, valued bool) {
	for _, arg := range arguments(cmdline) {
		name, v, has := strings.Cut(arg, "=")
		if name == "dcm.profile" {
			value, given, valued = v, true, has
		}
	}
	return value, given, valued
}

// arguments splits a kernel command line as next_arg of the kernel's lib/cmdline.c does. Blanks inside
// double quotes do not separate arguments. Quotes around an argument or its value are removed. There
// is no escape character.
func arguments(line string) []string {
	var all []string
	for line = strings.TrimLeft(line, blanks); line != ""; line = strings.TrimLeft(line, blanks) {
		quoted, end := line[0] == '"', 0
		inside := false
		for ; end < len(line) && (inside || !strings.ContainsRune(blanks, rune(line[end]))); end++ {
			if line[end] == '"' {
				inside = !inside
			}
		}
		arg := line[:end]
		line = line[end:]
		if quoted {
			arg = strings.TrimSuffix(arg[1:], `"`)
		}
		if name, value, ok := strings.Cut(arg, "="); ok && strings.HasPrefix(value, `"`) {
			arg = name + "=" + strings.TrimSuffix(value[1:], `"`)
		}
		all = append(all, arg)
	}
	return all
}

const blanks = " \t\n\v\f\r"
