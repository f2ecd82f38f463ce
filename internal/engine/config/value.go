package config

import "strings"

// value reads any value, noting where the elements of arrays and the keys of
// inline tables stand.
func (f *finder) value(at *position) {
	if f.depth++; f.depth > deepest {
		f.tooDeep()
	}
	defer func() { f.depth-- }()
	switch f.peek() {
	case '"', '\'':
		f.str()
	case '[':
		f.off++
		for f.more("]") {
			f.value(at.add(f.line))
		}
	case '{':
		f.off++
		for f.more("}") {
			f.assignment(at)
		}
	default:
		// A number, a boolean or a date, which may hold a space.
		n := strings.IndexAny(f.text[f.off:], ",]}#\r\n")
		if n < 0 {
			n = len(f.text) - f.off
		}
		f.off += n
	}
}

// more steps over blanks and commas and reports whether another element comes
// before the closing bracket, which it steps over too.
func (f *finder) more(end string) bool {
	for f.blank(); f.take(","); f.blank() {
	}
	return !f.take(end) && f.off < len(f.text) && !strings.ContainsRune("]}", rune(f.text[f.off]))
}

// str reads a string of one line or, with three quotes, of several.
func (f *finder) str() {
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
func (f *finder) quoted(q string) {
	f.off++
	for f.off < len(f.text) && f.peek() != '\n' && !f.take(q) {
		f.step(q == `"`)
	}
}

// step moves on by one byte, or by an escape of two.
func (f *finder) step(escapes bool) {
	if escapes && f.peek() == '\\' && f.off+1 < len(f.text) {
		f.off++
	}
	if f.peek() == '\n' {
		f.line++
	}
	f.off++
}

// blank steps over spaces, line ends and comments.
func (f *finder) blank() {
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

func (f *finder) space() {
	for f.peek() == ' ' || f.peek() == '\t' {
		f.off++
	}
}

// peek returns the next byte, or 0 at the end.
func (f *finder) peek() byte {
	if f.off >= len(f.text) {
		return 0
	}
	return f.text[f.off]
}

func (f *finder) take(s string) bool {
	if !strings.HasPrefix(f.text[f.off:], s) {
		return false
	}
	f.off += len(s)
	return true
}

// tooDeep ends the search.
func (f *finder) tooDeep() {
	if f.deep == 0 {
		f.deep = f.line
	}
	f.off = len(f.text)
}
