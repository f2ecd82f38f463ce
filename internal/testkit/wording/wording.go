// Package wording finds texts that do not use plain English and the field's terms: words of
// a list, sentences that are too long, and durations whose name does not say so. It reads
// comments and string literals of Go, and all of the other texts in the repository.
package wording

import (
	"fmt"
	"regexp"
	"strings"
)

// maxWords is the length of the longest sentence in a message or manual.
const maxWords = 25

// The names of the other rules in a finding.
const (
	longSentence = "long sentence"
	durationName = "duration name"
	hintForm     = "form of a hint"
)

// A finding is one place that breaks a rule.
type finding struct {
	file string // path below the root of the repository
	line int
	rule string // a word of the list, or another rule's name
	text string
}

func (f finding) String() string {
	return fmt.Sprintf("%s:%d: %s: %s", f.file, f.line, f.rule, f.text)
}

// words maps each word or phrase that is not used to what is written instead.
var words = map[string]string{
	"absolve":     "clear",
	"anew":        "again",
	"at once":     "immediately, or concurrently",
	"behind":      "after",
	"beside":      "next to, or in addition to",
	"can be had":  "is possible, or is available",
	"cannot have": "cannot acquire, or cannot use",
	"chronicle":   "history",
	"debts":       "pending starts",
	"for good":    "permanently",
	"in force":    "effective",
	"in vain":     "needlessly",
	"lessor":      "lease service",
	"nobody":      "no process, no user, or nothing",
	"outfit":      "device ACL",
	"premises":    "lease host",
	"somebody":    "a process, a user, or the administrator",
	"tell":        "report, print or show",
	"telling":     "reporting",
	"tells":       "reports, prints or shows",
	"testimony":   "observation",
	"told":        "reported, printed or shown",
	"whoever":     "the caller, a process, or a user",
}

// allowed are standard terms that contain a word of the list. Quotes are part of none of them.
var allowed = regexp.MustCompile(`(?i)user nobody|reuid=nobody|chown (-R )?nobody|slurm-?tell|slurm tell|feature\|tell|tell \[-|nobody:|uid nobody|--user=nobody|-u nobody|User=nobody|"nobody"|nobody's group|nogroup|^nobody$|\.beside\b|json:"beside`)

var (
	listed = regexp.MustCompile(`(?i)\b(` + alternatives() + `)\b`)
	spaces = regexp.MustCompile(`\s+`)
	// A sentence ends with its mark before a blank and a capital letter, or with the text.
	sentenceEnd = regexp.MustCompile(`[.!?]["')]*\s+`)
)

func alternatives() string {
	var all []string
	for word := range words {
		all = append(all, strings.ReplaceAll(regexp.QuoteMeta(word), " ", `\s+`))
	}
	return strings.Join(all, "|")
}

// checkWords finds the words of the list in a text that begins in the given line.
func checkWords(file string, line int, text string) []finding {
	var found []finding
	text = allowed.ReplaceAllStringFunc(text, func(s string) string { return strings.Repeat("_", len(s)) })
	for _, at := range listed.FindAllStringIndex(text, -1) {
		word := strings.ToLower(spaces.ReplaceAllString(text[at[0]:at[1]], " "))
		found = append(found, finding{file, line + strings.Count(text[:at[0]], "\n"), word, around(text, at)})
	}
	return found
}

// around returns the line of a text in which a match is, with the line after it if the match goes on there.
func around(text string, at []int) string {
	start := strings.LastIndex(text[:at[0]], "\n") + 1
	end := len(text)
	if n := strings.Index(text[at[1]:], "\n"); n >= 0 {
		end = at[1] + n
	}
	return strings.TrimSpace(spaces.ReplaceAllString(text[start:end], " "))
}

// checkSentences finds the sentences of a paragraph that have more than maxWords words.
func checkSentences(file string, line int, paragraph string) []finding {
	var found []finding
	for _, sentence := range sentenceEnd.Split(paragraph, -1) {
		if n := len(strings.Fields(sentence)); n > maxWords {
			found = append(found, finding{file, line, longSentence, fmt.Sprintf("%d words: %s", n, spaces.ReplaceAllString(strings.TrimSpace(sentence), " "))})
		}
	}
	return found
}
