// Package sanitize is the entrance for text that dcm did not write: names of
// processes, units and files, what sysfs, a library, a helper or another program on
// the bus says, the environment, the words of a configuration quoted in an error.
//
// Such text is escaped once, where it comes in. Everybody behind the entrance, a
// terminal of root's, the journal, the bus, a metric, can then take it as it is:
// it is UTF-8, every character of it is seen, and it has an end. Escaping what is
// escaped changes nothing.
//
// What is needed as it is, since a file is opened by it, is a [Name]: that can be
// printed only escaped. A test of this package holds every other read of such text
// in dcm to a list with reasons.
package sanitize

import (
	"fmt"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"
)

// How long a text may be once it is escaped, in bytes.
const (
	longest = 1 << 10 // one of a line
	largest = 64 << 10
)

// Text returns s as one line: what is not printable, line ends among it, is
// written like \n, \x1b or \u202e, and what is too long is cut. Backslashes stay
// as they are, since names of units have them.
func Text(s string) string { return escape(s, "", longest) }

// Lines is Text for a text of several lines, whose line ends and tabs stay. It
// takes much longer ones.
func Lines(s string) string { return escape(s, "\n\t", largest) }

// Env returns a variable of the environment, as one line.
func Env(key string) string { return Text(os.Getenv(key)) }

// escape leaves the characters of kept as they are.
func escape(s, kept string, limit int) string {
	if len(s) <= limit && clean(s, kept) {
		return s
	}
	const cut = "…"
	var b strings.Builder
	fits := 0 // what may stay if all of it is too long
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

// ascii tells of what is clean at a glance, which nearly all is.
func ascii(s, kept string) bool {
	for _, c := range []byte(s) {
		if (c < ' ' || c > '~') && strings.IndexByte(kept, c) < 0 {
			return false
		}
	}
	return true
}

// plain tells whether a reader sees the character and sees no other for it: what
// turns the direction of writing, or has no width, is none of unicode's printable
// ones.
func plain(r rune, kept string) bool {
	return unicode.IsPrint(r) && !invisible(r) || strings.ContainsRune(kept, r)
}

// brailleBlank has the category of a symbol and no ink.
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

// Error returns err with its text escaped, for one that holds a foreign name. What
// it wraps is found as before. nil stays nil.
func Error(err error) error {
	if err == nil || clean(err.Error(), "\n") {
		return err
	}
	return &failure{err}
}

type failure struct{ err error }

func (f *failure) Error() string { return escape(f.err.Error(), "\n", largest) }
func (f *failure) Unwrap() error { return f.err }
