package wording

import (
	"regexp"
	"strings"
)

// escapes are the font changes and the special characters of roff.
var escapes = regexp.MustCompile(`\\f.|\\[-&]|\\\(..`)

// inline are the macros whose arguments are words of the sentence.
var inline = regexp.MustCompile(`^\.(B|I|R|BR|BI|IR|IB|RB|RI|SM|SB) `)

// checkManual checks the words and sentences of a manual page. A paragraph is what stands
// between two macros that are not inline. Examples between .EX and .EE have no sentences.
func checkManual(file, text string) []finding {
	found := checkWords(file, 1, escapes.ReplaceAllString(text, ""))
	var paragraph []string
	start, example := 0, false
	end := func() {
		found = append(found, checkSentences(file, start, escapes.ReplaceAllString(strings.Join(paragraph, " "), ""))...)
		paragraph = nil
	}
	for i, line := range strings.Split(text, "\n") {
		if inline.MatchString(line) {
			line = line[strings.Index(line, " ")+1:]
		} else if strings.HasPrefix(line, ".") || strings.HasPrefix(line, `'`) || strings.TrimSpace(line) == "" {
			end()
			example = strings.HasPrefix(line, ".EX") || strings.HasPrefix(line, ".nf") || example && !strings.HasPrefix(line, ".EE") && !strings.HasPrefix(line, ".fi")
			continue
		}
		if example {
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
