package source

import "strings"

// positions returns the positions of all keys, and the line of the first value that is nested too
// deeply, or 0.
func positions(text string) (*position, int) {
	f := &scanner{text: text, line: 1}
	root := &position{line: 1, own: true}
	current := root
	for f.blank(); f.off < len(f.text) && f.deep == 0; f.blank() {
		if f.text[f.off] == '[' {
			current = f.header(root)
			continue
		}
		if !f.assignment(current) {
			break
		}
	}
	return root, f.deep
}

// header reads "[a.b]" or "[[a.b]]" and returns the table that it opens.
func (f *scanner) header(root *position) *position {
	line, array := f.line, false
	f.off++
	if f.take("[") {
		array = true
	}
	at := root.path(f.keys(), line)
	f.blank()
	f.take("]")
	if array {
		f.take("]")
		return at.add(line)
	}
	return at
}

// assignment reads "a.b = value" and reports whether there was one.
func (f *scanner) assignment(table *position) bool {
	line := f.line
	keys := f.keys()
	f.blank()
	if len(keys) == 0 || !f.take("=") {
		f.off = len(f.text)
		return false
	}
	f.blank()
	f.value(table.path(keys, line))
	return true
}

// value reads any value, and records the positions of array elements and of keys in inline tables.
func (f *scanner) value(at *position) {
	if f.depth++; f.depth > maxDepth {
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
		// A number, a boolean or a date, which may contain a space.
		n := strings.IndexAny(f.text[f.off:], ",]}#\r\n")
		if n < 0 {
			n = len(f.text) - f.off
		}
		f.off += n
	}
}

// more skips blanks and commas, and reports whether another element follows before the closing
// bracket, which it skips too.
func (f *scanner) more(end string) bool {
	for f.blank(); f.take(","); f.blank() {
	}
	return !f.take(end) && f.off < len(f.text) && !strings.ContainsRune("]}", rune(f.text[f.off]))
}
