package examples

import (
	"fmt"
	"regexp"
	"strings"
)

// unescape makes the text of roff as the reader sees it.
var unescape = strings.NewReplacer(`\-`, "-", `\e`, `\`, `\(aq`, "'", `\(dq`, `"`, `\&`, "", `\(bu`, "*", `\(->`, "->")

var (
	fonts     = regexp.MustCompile(`\\f.`)
	arguments = regexp.MustCompile(`"[^"]*"|\S+`)
	manMark   = regexp.MustCompile(`^\.\\" example: (.*)$`)
)

func shown(text string) string { return unescape.Replace(fonts.ReplaceAllString(text, "")) }

// Manual returns the examples of a manual page: the text between .nf or .EX and its end, and commands in bold.
func Manual(file, text string) ([]Example, error) {
	p := parser{file: file}
	var block []string
	var section, until string
	table := false
	for i, line := range strings.Split(text, "\n") {
		p.line = i + 1
		macro, rest, _ := strings.Cut(line, " ")
		if m := manMark.FindStringSubmatch(line); m != nil {
			p.mark(m[1])
			continue
		}
		switch {
		case until != "" && macro == until:
			p.end(dedent(block))
			block, until = nil, ""
		case until != "" && strings.HasPrefix(line, "."):
			if macro != ".RS" && macro != ".RE" && macro != ".PP" && macro != ".ne" {
				block = append(block, shown(strings.Join(words(rest), "")))
			}
		case until != "":
			p.within(shown(line))
			block = append(block, shown(line))
		case macro == ".nf", macro == ".EX":
			until = map[string]string{".nf": ".fi", ".EX": ".EE"}[macro]
			p.begin(p.line + 1)
		case macro == ".SH":
			section = shown(strings.Join(words(rest), " "))
			p.enter(section)
		case macro == ".SS":
			p.enter(section + "/" + shown(strings.Join(words(rest), " ")))
		case macro == ".TS", macro == ".TE":
			table = macro == ".TS"
		case table:
			for cell := range strings.SplitSeq(line, ";") {
				for c := range strings.SplitSeq(cell, ", ") {
					p.inline(shown(c))
				}
			}
		case macro == ".B":
			p.inline(shown(strings.Join(words(rest), " ")))
		case macro == ".BR", macro == ".BI":
			p.inline(shown(strings.Join(words(rest)[:1], "")))
		case macro == ".RB":
			if w := words(rest); len(w) > 1 {
				p.inline(shown(w[1]))
			}
		case !strings.HasPrefix(line, "."):
			p.marks = nil
		}
	}
	if until != "" {
		p.fail(fmt.Errorf("no %s after the block", until))
	}
	return p.found, p.err
}

// words returns the arguments of a macro without their quotes.
func words(rest string) []string {
	all := arguments.FindAllString(rest, -1)
	for i, a := range all {
		all[i] = strings.Trim(a, `"`)
	}
	return all
}
