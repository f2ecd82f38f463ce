// Package sanitize escapes text from outside dcm: names of processes, units and files; text
// from sysfs, libraries, helpers and other programs on the bus; environment variables;
// quoted configuration.
//
// Such text is escaped once, where it is read. Terminals, the journal, the bus and metrics
// then use it as it is. It is UTF-8, every character is visible, and its length is limited.
// Escaping it again changes nothing.
//
// A [Name] keeps the raw text for system calls and prints only the escaped form. A test of
// this package compares all other readers of external text in dcm with a list of reasons.
package sanitize

import (
	"fmt"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of an escaped text in bytes.
const (
	longest = 1 << 10 // of Text
	largest = 64 << 10
)

// Text returns s as one line. Characters that are not printable, line breaks included, are
// written as \n, \x1b or \u202e. A text that is too long is cut. Backslashes stay, since
// unit names contain them.
func Text(s string) string { return escape(s, "", longest) }

// Lines is Text for several lines: line breaks and tabs stay. Its limit is 64 KiB.
func Lines(s string) string { return escape(s, "\n\t", largest) }

// Env returns an environment variable as one line.
func Env(key string) string { return Text(os.Getenv(key)) }

// escape escapes all characters that are neither plain nor in kept.
func escape(s, kept string, limit int) string {
	if len(s) <= limit && clean(s, kept) {
		return s
	}
	const cut = "…"
	var b strings.Builder
	fits := 0 // length of the result if it must be cut
	for len(s) > 0 && b.Len() <= limit {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case plain(r, kept):
			b.WriteRune(r)
		default:
			b.WriteString(written(r))
		}
		s = s[size:]
		if b.Len() <= limit-len(cut) {
			fits = b.Len()
		}
	}
	if b.Len() <= limit {
		return b.String()
	}
	return b.String()[:fits] + cut
}

func clean(s, kept string) bool {
	if ascii(s, kept) {
		return true
	}
	for i, r := range s {
		if !plain(r, kept) || r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)) {
			return false
		}
	}
	return true
}

// ascii is a fast check that most texts pass.
func ascii(s, kept string) bool {
	for _, c := range []byte(s) {
		if (c < ' ' || c > '~') && strings.IndexByte(kept, c) < 0 {
			return false
		}
	}
	return true
}

// plain reports whether a reader sees the character and cannot take it for another one.
// Characters that change the writing direction or have no width are not printable in package
// unicode.
func plain(r rune, kept string) bool {
	return unicode.IsPrint(r) && !invisible(r) || strings.ContainsRune(kept, r)
}

// brailleBlank is a symbol by category and is displayed as a blank.
const brailleBlank = '\u2800'

// invisible reports whether a printable character may be displayed as nothing. Unicode's
// property Default_Ignorable_Code_Point is these two tables and format characters, which
// unicode.IsPrint excludes (UAX #44, DerivedCoreProperties).
func invisible(r rune) bool {
	return r == brailleBlank || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

func written(r rune) string {
	switch {
	case r == '\n':
		return `\n`
	case r == '\t':
		return `\t`
	case r < 0x80:
		return fmt.Sprintf(`\x%02x`, r)
	case r <= 0xffff:
		return fmt.Sprintf(`\u%04x`, r)
	}
	return fmt.Sprintf(`\U%08x`, r)
}

// Error returns err with its text escaped. errors.Is and errors.As still find what it wraps.
// nil stays nil.
func Error(err error) error {
	if err == nil || clean(err.Error(), "\n") {
		return err
	}
	return &failure{err}
}

type failure struct{ err error }

func (f *failure) Error() string { return escape(f.err.Error(), "\n", largest) }
func (f *failure) Unwrap() error { return f.err }
