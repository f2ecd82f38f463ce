package wording

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// oldCommand is the rule of texts that have the old name of a command.
const oldCommand = "old name of a command"

// oldNames returns the old names of commands, which the table of dcm(1) has. An option belongs to the name, its
// argument does not.
func oldNames(page string) []string {
	_, table, _ := strings.Cut(escapes.ReplaceAllStringFunc(page, dash), "\nold;new\n")
	table, _, _ = strings.Cut(table, "\n.TE\n")
	var names []string
	for line := range strings.Lines(table) {
		old, _, _ := strings.Cut(line, ";")
		words := strings.Fields(old)
		n := slices.IndexFunc(words, func(w string) bool { return strings.ToUpper(w) == w })
		if n < 0 {
			n = len(words)
		}
		names = append(names, strings.Join(words[:n], " "))
	}
	return names
}

// dash keeps the hyphens of roff.
func dash(escape string) string {
	if escape == `\-` {
		return "-"
	}
	return ""
}

// checkOldCommands finds old names of commands. The table of the old names itself is no finding.
func checkOldCommands(file, text string, old *regexp.Regexp) []finding {
	var found []finding
	inTable := false
	for i, line := range strings.Split(escapes.ReplaceAllStringFunc(text, dash), "\n") {
		if line == "old;new" || line == ".TE" {
			inTable = line == "old;new"
		}
		if name := old.FindString(line); name != "" && !inTable {
			found = append(found, finding{file, i + 1, oldCommand, fmt.Sprintf("%s: %s", name, strings.TrimSpace(line))})
		}
	}
	return found
}

// oldPattern matches each of the names as whole words.
func oldPattern(names []string) *regexp.Regexp {
	var all []string
	for _, name := range names {
		all = append(all, regexp.QuoteMeta(name))
	}
	return regexp.MustCompile(`\b(` + strings.Join(all, "|") + `)\b`)
}
