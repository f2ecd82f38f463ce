package examples

import (
	"regexp"
	"strings"
)

var (
	markdownMark = regexp.MustCompile(`^ *<!-- example: (.*) -->$`)
	heading      = regexp.MustCompile(`^#+ (.*)$`)
	fence        = regexp.MustCompile("^ *```([a-z]*)$")
	code         = regexp.MustCompile("`([^`]+)`")
)

// Markdown returns the examples of a Markdown file: indented and fenced blocks of code, and commands in
// backticks.
func Markdown(file, text string) ([]Example, error) {
	p := parser{file: file}
	var block []string
	fenced, indented := false, false
	lines := strings.Split(text, "\n")
	end := func() {
		p.end(dedent(block))
		block, fenced, indented = nil, false, false
	}
	for i, line := range lines {
		p.line = i + 1
		code4 := strings.HasPrefix(line, "    ")
		blank := strings.TrimSpace(line) == ""
		switch m := markdownMark.FindStringSubmatch(line); {
		case m != nil:
			p.mark(m[1])
			continue
		case fence.MatchString(line) && fenced:
			end()
		case fence.MatchString(line):
			fenced = true
			p.begin(p.line + 1)
		case fenced:
			block = append(block, line)
		case code4 && !indented && !blank && (i == 0 || strings.TrimSpace(lines[i-1]) == ""):
			indented = true
			p.begin(p.line)
			block = append(block, line)
		case indented && (code4 || blank):
			block = append(block, line)
		default:
			if indented {
				end()
			}
			if m := heading.FindStringSubmatch(line); m != nil {
				p.enter(m[1])
			}
			for _, m := range code.FindAllStringSubmatch(line, -1) {
				p.inline(m[1])
			}
			if !blank {
				p.marks = nil
			}
		}
	}
	if indented || fenced {
		end()
	}
	return p.found, p.err
}
