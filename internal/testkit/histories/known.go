package histories

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// known is a history that violated a promise, from a file of the directory known. The first line is its
// title. The lines promise, version, status, violates and fix follow, and then the script.
type known struct {
	name     string
	title    string
	promise  string // number of the guarantee in dcm-guarantees(7)
	version  string // in which it was found
	open     bool   // it is not repaired
	violates *regexp.Regexp
	fix      string
	script   script
}

// readKnown reads the directory, in the order of names.
func readKnown(dir string) ([]known, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	var out []known
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		k, err := parseKnown(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		k.name = strings.TrimSuffix(filepath.Base(file), ".txt")
		out = append(out, k)
	}
	return out, nil
}

func parseKnown(text string) (k known, err error) {
	var rest strings.Builder
	for line := range strings.Lines(text) {
		word, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "#":
			k.title += value
		case "promise":
			k.promise = value
		case "version":
			k.version = value
		case "status":
			k.open = value == "open"
		case "violates":
			if k.violates, err = regexp.Compile(value); err != nil {
				return k, err
			}
		case "fix":
			k.fix = value
		default:
			rest.WriteString(line)
		}
	}
	if k.violates == nil || k.title == "" || k.fix == "" {
		return k, fmt.Errorf("a line is missing (want a title, violates and fix)")
	}
	k.script, err = parseScript(rest.String())
	return k, err
}

// explains reports whether the violation is of this kind.
func (k known) explains(v Violation) bool { return k.violates.MatchString(v.String()) }

// unexplained returns the violations that no open entry explains.
func unexplained(list []known, found []Violation) []Violation {
	return slices.DeleteFunc(slices.Clone(found), func(v Violation) bool {
		return slices.ContainsFunc(list, func(k known) bool { return k.open && k.explains(v) })
	})
}

// page returns the list of the known violations in Markdown.
func page(list []known) string {
	var b strings.Builder
	b.WriteString("# Violations of promises\n\nEach entry is a history in this directory that violated a promise of dcm-guarantees(7). The test\nTestKnown plays them. An entry is open until its history violates nothing; then its status is the version\nthat repaired it.\n")
	for _, k := range list {
		state := "open"
		if !k.open {
			state = "repaired"
		}
		fmt.Fprintf(&b, "\n## %s\n\n- promise: %s\n- found in: %s\n- status: %s\n- repair: %s\n- reproduction: %s.txt, %d actions\n\n```\n%s```\n",
			k.title, k.promise, k.version, state, k.fix, k.name, len(k.script.actions), k.script)
	}
	return b.String()
}
