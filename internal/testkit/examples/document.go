package examples

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Documents returns the examples of all documents of the repository in root, without those of the help texts.
func Documents(root string) ([]Example, error) {
	var out []Example
	for _, d := range []struct {
		pattern string
		read    func(file, text string) ([]Example, error)
	}{
		{"README.md", Markdown},
		{"packaging/*.md", Markdown},
		{"packaging/*/README.md", Markdown},
		{"packaging/kit/README.txt", kit},
		{"packaging/ansible/roles/*/README.md", Markdown},
		{"packaging/man/*", Manual},
		{"packaging/dcm.toml", Template},
	} {
		files, err := filepath.Glob(filepath.Join(root, d.pattern))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				return nil, err
			}
			name, err := filepath.Rel(root, f)
			if err != nil {
				return nil, err
			}
			found, err := d.read(name, string(text))
			if err != nil {
				return nil, err
			}
			out = append(out, found...)
		}
	}
	return out, nil
}

// kit returns the examples of the README of the hardware kit. It is plain text and so has no marks of its own.
func kit(file, text string) ([]Example, error) {
	marked := strings.Replace(text, "\n    sudo ", "\n<!-- example: run by TestNode/nvidia -->\n\n    sudo ", 1)
	return Markdown(file, strings.Replace(marked, "\n    record.json ", "\n<!-- example: output -->\n\n    record.json ", 1))
}

// helpMarks are the marks of the examples in help texts by the command, since these texts have no comments.
var helpMarks = map[string]string{"dcm plan": "exits 2: dcm plan", "dcm support record": "exits 2: dcm plan"}

// Help returns the examples of a help text of a command.
func Help(command, text string) ([]Example, error) {
	if text == "" {
		return nil, nil
	}
	var out strings.Builder
	if mark := helpMarks[command]; mark != "" {
		out.WriteString("<!-- example: " + mark + " -->\n")
	}
	out.WriteString("\n")
	for line := range strings.Lines(text) {
		out.WriteString("  " + line) // a block of code has four blanks
	}
	return Markdown(command+" --help", out.String())
}

// comments are lines of the template that are an example, without their #.
var comments = regexp.MustCompile(`(?m)^#([a-z\[].*)$`)

// Template returns the examples of the template of dcm.toml: the template itself, and the template with the # removed from
// each group of settings that an administrator would enable together: a table of its own, or one key.
func Template(file, text string) ([]Example, error) {
	lines := strings.Split(text, "\n")
	out := []Example{{File: file, Line: 1, Text: text, Kind: Config}}
	add := func(from, to int) {
		enabled := append([]string(nil), lines...)
		for i := from; i < to; i++ {
			enabled[i] = comments.ReplaceAllString(enabled[i], "$1")
		}
		e := Example{File: file, Line: from + 1, Section: strings.TrimPrefix(lines[from], "#"), Text: strings.Join(enabled, "\n"), Kind: Config}
		// The template has no marks, since users read its comments.
		switch own := strings.Join(enabled[from:to], "\n"); {
		case strings.Contains(own, "\nmake ="):
			e.Mark = Mark{Nodes: []string{"h100-8"}, Base: "dynamic"}
		case strings.Contains(own, "\nmig ="):
			e.Mark = Mark{Nodes: []string{"h100-8"}}
		case strings.Contains(own, "[[budget]]"):
			e.Mark.Base = "single"
		}
		out = append(out, e)
	}
	for i := 0; i < len(lines); {
		if !comments.MatchString(lines[i]) {
			i++
			continue
		}
		from := i
		table := strings.HasPrefix(lines[i], "#[")
		i++
		for table && i < len(lines) && (comments.MatchString(lines[i]) && !strings.HasPrefix(lines[i], "#[") || partOfProfile(lines, from, i)) {
			i++
		}
		add(from, i)
	}
	return out, nil
}

// partOfProfile reports whether the line belongs to the profile that begins in the line from: its groups are tables of
// their own.
func partOfProfile(lines []string, from, at int) bool {
	return strings.HasPrefix(lines[from], "#[profiles.") && (lines[at] == "#" || strings.HasPrefix(lines[at], "#[[profiles."))
}
