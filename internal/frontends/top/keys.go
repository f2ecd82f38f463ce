package top

import "strings"

// key is one that was pressed: what it writes, or its name.
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

// sequences are what terminals send for those (ECMA-48, and xterm's).
func sequence(s string) key {
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

// keys are those of what a terminal has sent, and what is left of it: the beginning of
// a sequence whose rest is still to come. whole says that nothing more will.
func keys(sent string, whole bool) (all []key, rest string) {
	for sent != "" {
		if sent[0] != '\x1b' {
			all, sent = append(all, key(sent[:1])), sent[1:]
			continue
		}
		if len(sent) == 1 || sent[1] != '[' && sent[1] != 'O' {
			if len(sent) == 1 && !whole {
				return all, sent
			}
			all, sent = append(all, keyEscape), sent[1:]
			continue
		}
		// Parameters, and one letter that ends it.
		n := strings.IndexFunc(sent[2:], func(r rune) bool { return r >= '@' && r <= '~' })
		if n < 0 {
			if whole || len(sent) > 32 {
				return all, ""
			}
			return all, sent
		}
		all, sent = append(all, sequence(sent[2:2+n+1])), sent[2+n+1:]
	}
	return all, ""
}
