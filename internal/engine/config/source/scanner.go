package source

import (
	"strings"

	"github.com/BurntSushi/toml"
)

// scanner finds the positions of keys in TOML. It accepts more than the decoder, which checks the
// syntax, and stops at a text that it cannot read.
type scanner struct {
	text  string
	off   int
	line  int
	depth int
	deep  int // line of the first value that is nested too deeply; 0 for none
}

// keys reads a dotted key.
func (f *scanner) keys() []string {
	var keys []string
	for {
		f.space()
		key, ok := f.key()
		if !ok {
			return keys
		}
		if keys = append(keys, key); len(keys) > maxDepth {
			f.tooDeep()
			return keys
		}
		f.space()
		if !f.take(".") {
			return keys
		}
	}
}

func (f *scanner) key() (string, bool) {
	start := f.off
	switch f.peek() {
	case '"', '\'':
		f.quoted(f.text[f.off : f.off+1])
		var v struct{ K string }
		// The decoder knows all escapes. It rejects the whole text for the same error.
		if _, err := toml.Decode("K="+f.text[start:f.off], &v); err != nil {
			return "", false
		}
		return v.K, true
	}
	for f.off < len(f.text) && !strings.ContainsRune(" \t\r\n.=[]{}\"'#,", rune(f.text[f.off])) {
		f.off++
	}
	return f.text[start:f.off], f.off > start
}

// str reads a string of one line or, with three quotes, of several.
func (f *scanner) str() {
	q := f.text[f.off : f.off+1]
	three := strings.Repeat(q, 3)
	if !f.take(three) {
		f.quoted(q)
		return
	}
	for f.off < len(f.text) && !f.take(three) {
		f.step(q == `"`)
	}
	// Up to two quotes may stand before the closing three.
	for i := 0; i < 2 && f.take(q); i++ {
	}
}

// quoted reads a string in single quotes of either kind.
func (f *scanner) quoted(q string) {
	f.off++
	for f.off < len(f.text) && f.peek() != '\n' && !f.take(q) {
		f.step(q == `"`)
	}
}

// step skips one byte, or two bytes of an escape.
func (f *scanner) step(escapes bool) {
	if escapes && f.peek() == '\\' && f.off+1 < len(f.text) {
		f.off++
	}
	if f.peek() == '\n' {
		f.line++
	}
	f.off++
}

// blank skips spaces, line ends and comments.
func (f *scanner) blank() {
	for {
		f.space()
		switch f.peek() {
		case '\n':
			f.line++
			f.off++
		case '\r':
			f.off++
		case '#':
			n := strings.IndexByte(f.text[f.off:], '\n')
			if n < 0 {
				n = len(f.text) - f.off
			}
			f.off += n
		default:
			return
		}
	}
}

func (f *scanner) space() {
	for f.peek() == ' ' || f.peek() == '\t' {
		f.off++
	}
}

// peek returns the next byte, or 0 at the end.
func (f *scanner) peek() byte {
	if f.off >= len(f.text) {
		return 0
	}
	return f.text[f.off]
}

func (f *scanner) take(s string) bool {
	if !strings.HasPrefix(f.text[f.off:], s) {
		return false
	}
	f.off += len(s)
	return true
}

// tooDeep records the line and ends the scan.
func (f *scanner) tooDeep() {
	if f.deep == 0 {
		f.deep = f.line
	}
	f.off = len(f.text)
}
