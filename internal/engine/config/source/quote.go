package source

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Quote writes s as a basic string of TOML. What a terminal might take for a
// command, or a reader not see, is escaped.
func Quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r > 0xffff && !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\U%08X`, r)
		case !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// Enumerate joins names for a message, and cuts a long list short.
func Enumerate(names []string) string {
	const most = 20
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s, and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// QuoteShort quotes a string for a message and cuts a long one short.
func QuoteShort(s string) string {
	const most = 80
	if utf8.RuneCountInString(s) > most {
		s = string([]rune(s)[:most]) + "…"
	}
	return Quote(s)
}

func Array[T any](items []T, write func(T) string) string {
	all := make([]string, len(items))
	for i, item := range items {
		all[i] = write(item)
	}
	return "[" + strings.Join(all, ", ") + "]"
}
