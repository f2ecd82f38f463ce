package top

import "strings"

// key is a pressed key: the character that it writes, or its name.
type key string

// Keys that write nothing.
const (
	ctrlC       key = "\x03"
	keyEscape   key = "escape"
	keyUp       key = "up"
	keyDown     key = "down"
	keyLeft     key = "left"
	keyRight    key = "right"
	keyPageUp   key = "page up"
	keyPageDown key = "page down"
	keyHome     key = "home"
	keyEnd      key = "end"
	keyOther    key = "other"
)

// parseSequence returns the key of a control sequence (ECMA-48 and xterm).
func parseSequence(s string) key {
	switch s {
	case "A":
		return keyUp
	case "B":
		return keyDown
	case "C":
		return keyRight
	case "D":
		return keyLeft
	case "5~":
		return keyPageUp
	case "6~":
		return keyPageDown
	case "H", "1~", "7~":
		return keyHome
	case "F", "4~", "8~":
		return keyEnd
	}
	return keyOther
}

// parseKeys returns the keys in the input of a terminal. rest is the beginning of an incomplete
// sequence. complete means that no more input follows.
func parseKeys(sent string, complete bool) (all []key, rest string) {
	for sent != "" {
		if sent[0] != '\x1b' {
			all, sent = append(all, key(sent[:1])), sent[1:]
			continue
		}
		if len(sent) == 1 || sent[1] != '[' && sent[1] != 'O' {
			if len(sent) == 1 && !complete {
				return all, sent
			}
			all, sent = append(all, keyEscape), sent[1:]
			continue
		}
		// Parameters, and one final letter.
		n := strings.IndexFunc(sent[2:], func(r rune) bool { return r >= '@' && r <= '~' })
		if n < 0 {
			if complete || len(sent) > 32 {
				return all, ""
			}
			return all, sent
		}
		all, sent = append(all, parseSequence(sent[2:2+n+1])), sent[2+n+1:]
	}
	return all, ""
}
