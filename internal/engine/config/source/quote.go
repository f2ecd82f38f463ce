package source

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Quote returns s as a basic string of TOML. Characters that are not printable are escaped.
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

// Enumerate joins names for a message. It shortens a long list.
func Enumerate(names []string) string {
	const most = 20
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s, and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// QuoteShort quotes a string for a message. It shortens a long string.
func QuoteShort(s string) string {
	const most = 80
	if utf8.RuneCountInString(s) > most {
		s = string([]rune(s)[:most]) + "…"
	}
	return Quote(s)
}

// Array returns the items as an array of TOML.
func Array[T any](items []T, write func(T) string) string {
	all := make([]string, len(items))
	for i, item := range items {
		all[i] = write(item)
	}
	return "[" + strings.Join(all, ", ") + "]"
}
