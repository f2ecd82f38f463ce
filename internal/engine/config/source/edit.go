package source

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
)

// SetKey returns a TOML text with a top-level key set to a string; "" removes the key. Comments,
// layout and line ends stay. It parses the result and returns an error if more than the key differs.
func SetKey(text, key, value string) (string, error) {
	edited := edit(text, key, value)
	before, broken := ParseTOML("", text)
	if broken != nil {
		return "", fmt.Errorf("%s", broken)
	}
	after, broken := ParseTOML("", edited)
	if broken != nil {
		return "", fmt.Errorf("the edited text is not TOML: %s", broken)
	}
	var want any
	if value != "" {
		want = value
	}
	old, _ := Plain(before).(map[string]any)
	now, _ := Plain(after).(map[string]any)
	if got := now[key]; got != want {
		return "", fmt.Errorf("the edited text would select %v", got)
	}
	delete(old, key)
	delete(now, key)
	if !reflect.DeepEqual(old, now) {
		return "", fmt.Errorf("the edited text would change more than the profile")
	}
	return edited, nil
}

func edit(text, key, value string) string {
	at := findKey(text, key)
	switch {
	case at.end > 0 && value == "":
		return text[:at.key] + remainder(text[at.end:])
	case at.end > 0:
		return text[:at.value] + Quote(value) + text[at.end:]
	case value == "":
		return text
	}
	lineEnd := "\n"
	if strings.Contains(text, "\r\n") {
		lineEnd = "\r\n"
	}
	above, line := text[:at.free], key+" = "+Quote(value)+lineEnd
	if at.free == at.top && len(text) > at.top {
		line += lineEnd // an empty line separates it from an unrelated comment below
	} else if above != "" && at.free > at.top && !strings.HasSuffix(above, "\n") {
		above += lineEnd
	}
	return above + line + text[at.free:]
}

// remainder returns the text after a removed assignment, from the comment on its line or the next
// line on.
func remainder(text string) string {
	text = strings.TrimLeft(text, " \t")
	if rest, ok := strings.CutPrefix(text, "\r\n"); ok {
		return rest
	}
	return strings.TrimPrefix(text, "\n")
}

// spot is the place of a top-level key, as byte offsets.
type spot struct {
	key, value, end int // of the assignment; end is 0 if the key is not set
	top             int // start of the text, after a byte order mark
	free            int // start of the line for a new assignment
}

// example matches a comment with an example of the assignment.
func example(key string) *regexp.Regexp {
	return regexp.MustCompile(`(?m)^[ \t]*#[ \t]*` + regexp.QuoteMeta(key) + `[ \t]*=`)
}

// findKey finds the assignment of a key, or the place for it: below an example, else below the last
// key above the tables, else at the top.
func findKey(text, key string) spot {
	at := spot{}
	if strings.HasPrefix(text, "\ufeff") {
		at.top = len("\ufeff")
	}
	at.free = at.top
	f := &scanner{text: text, off: at.top, line: 1}
	example := example(key)
	shown := false
	for {
		gap := f.off
		f.blank()
		if m := example.FindStringIndex(text[gap:f.off]); m != nil && !shown {
			shown, at.free = true, below(text, gap+m[1])
		}
		if f.peek() == '[' || f.off >= len(text) {
			return at
		}
		start := f.off
		keys := f.keys()
		f.blank()
		if len(keys) == 0 || !f.take("=") {
			return at // not TOML
		}
		f.blank()
		value := f.off
		f.value(new(position))
		if len(keys) == 1 && keys[0] == key {
			at.key, at.value, at.end = start, value, f.off
			return at
		}
		if !shown {
			at.free = below(text, f.off)
		}
	}
}

// below returns the start of the line after the one with the offset.
func below(text string, off int) int {
	if n := strings.IndexByte(text[off:], '\n'); n >= 0 {
		return off + n + 1
	}
	return len(text)
}
