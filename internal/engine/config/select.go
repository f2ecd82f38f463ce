package config

import (
	"maps"
	"slices"
	"strings"

	"dcm/internal/gpu/partition"
)

// commandLine stands for a file name where the kernel command line is meant.
const commandLine = "kernel command line"

// choice is the profile selected and what selected it.
type choice struct{ name, source string }

// selectProfile returns the profile that is selected: by the kernel command line, or
// else by the files. whole says that every file could be read; otherwise the
// profile may be defined in one that could not.
func selectProfile(c *checker, root *node, cmdline string, whole bool) choice {
	all := slices.Sorted(maps.Keys(tables(root.at("profiles"))))
	judge := func(n *node) {
		name, ok := n.value.(string)
		if !ok || n.bad || name == "" || name == None || slices.Contains(all, name) {
			return
		}
		if _, ok := partition.Predefined(name); ok && c.out[name] == nil {
			return
		}
		if why := c.out[name]; why != nil {
			n.bad = true
			c.problems = append(c.problems, why...)
			return
		}
		f := noProfile(name, all)
		if !whole {
			f.text += " in the files that can be read"
		}
		c.fail(n, "profile", f)
	}
	var pick choice
	if n := root.at("profile"); n != nil {
		judge(n)
		pick = says(root)
	}
	switch name, given, valued := parameter(cmdline); {
	case given && !valued:
		c.problems = append(c.problems, Problem{File: commandLine, Key: "dcm.profile", Text: "has no value", Accepted: "dcm.profile=NAME, dcm.profile=none"})
	case given:
		n := &node{file: commandLine, value: name}
		judge(n)
		if last := len(c.problems) - 1; n.bad && c.problems[last].File == commandLine {
			c.problems[last].Key = "dcm.profile"
		}
		pick = choice{name, commandLine}
	}
	if pick.name == None {
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

// arguments splits a kernel command line as next_arg of the kernel's
// lib/cmdline.c does: double quotes keep blanks together, and are dropped around
// the whole argument or around its value; there is no escape.
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
