package wording

import (
	"regexp"
	"strings"
)

// escapes are the font changes and the special characters of roff.
var escapes = regexp.MustCompile(`\\f.|\\[-&]|\\\(..`)

// inline are the macros whose arguments are words of the sentence.
var inline = regexp.MustCompile(`^\.(B|I|R|BR|BI|IR|IB|RB|RI|SM|SB) `)

// argument is one argument of a macro, with its quotes.
var argument = regexp.MustCompile(`"[^"]*"|\S+`)

// verbatim maps the macro that begins text without sentences, such as an example or a
// table, to the one that ends it.
var verbatim = map[string]string{".EX": ".EE", ".nf": ".fi", ".TS": ".TE"}

// checkManual checks the words and sentences of a manual page. A paragraph is the text
// between two macros that are not inline. The tag of a paragraph (.TP) has no sentences.
func checkManual(file, text string) []finding {
	found := checkWords(file, 1, escapes.ReplaceAllString(text, ""))
	var paragraph []string
	start, tag, until := 0, false, ""
	end := func() {
		found = append(found, checkSentences(file, start, escapes.ReplaceAllString(strings.Join(paragraph, " "), ""))...)
		paragraph = nil
	}
	for i, line := range strings.Split(text, "\n") {
		macro, _, _ := strings.Cut(line, " ")
		switch {
		case until != "":
			if macro == until {
				until = ""
			}
			continue
		case tag:
			tag = false
			continue
		case inline.MatchString(line):
			line = joined(line)
		case strings.HasPrefix(line, "."), strings.HasPrefix(line, `'`), strings.TrimSpace(line) == "":
			end()
			tag, until = macro == ".TP" || macro == ".TQ", verbatim[macro]
			continue
		}
		if len(paragraph) == 0 {
			start = i + 1
		}
		paragraph = append(paragraph, line)
	}
	end()
	return found
}

// joined returns the text that an inline macro prints. A macro of one font prints its
// arguments with blanks, one that alternates between two fonts prints them without.
func joined(line string) string {
	macro, rest, _ := strings.Cut(line, " ")
	arguments := argument.FindAllString(rest, -1)
	for i, a := range arguments {
		arguments[i] = strings.Trim(a, `"`)
	}
	if len(macro) == len(".B") {
		return strings.Join(arguments, " ")
	}
	return strings.Join(arguments, "")
}
