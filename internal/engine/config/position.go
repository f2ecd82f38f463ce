package config

import (
	"strings"

	"github.com/BurntSushi/toml"
)

// deepest bounds the nesting of values and the parts of a dotted key. The TOML
// decoder takes quadratic time and memory for what is nested deeply, and nothing
// in the schema needs more than a few.
const deepest = 16

// position is where a key or an element of an array stands. The TOML decoder
// tells positions only for what is not TOML at all.
type position struct {
	line  int
	own   bool // line is that of its own header or assignment, not of a key below it
	keys  map[string]*position
	items []*position
}

// child returns the position below p, made if need be. In an array of tables it
// is the last table that is meant.
func (p *position) child(key string, line int) *position {
	p = p.last()
	if p.keys == nil {
		p.keys = make(map[string]*position)
	}
	c := p.keys[key]
	if c == nil {
		c = &position{line: line}
		p.keys[key] = c
	}
	return c
}

func (p *position) last() *position {
	if n := len(p.items); n > 0 {
		return p.items[n-1]
	}
	return p
}

func (p *position) add(line int) *position {
	item := &position{line: line, own: true}
	p.items = append(p.items, item)
	return item
}

// path follows a dotted key; the line is that of the end of the path.
func (p *position) path(keys []string, line int) *position {
	for _, key := range keys {
		p = p.child(key, line)
	}
	if !p.own {
		p.line, p.own = line, true
	}
	return p
}

// finder reads just enough of TOML to know where each key stands. It takes more
// than the decoder does and stops at what it cannot read: whether the text is
// TOML is the decoder's to say.
type finder struct {
	text  string
	off   int
	line  int
	depth int
	deep  int // line of the first thing nested too deeply; 0 if nothing is
}

// locate returns the positions of all keys, and the line of the first thing that
// is nested too deeply to be decoded, or 0.
func locate(text string) (*position, int) {
	f := &finder{text: text, line: 1}
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
func (f *finder) header(root *position) *position {
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
func (f *finder) assignment(table *position) bool {
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

// keys reads a dotted key.
func (f *finder) keys() []string {
	var keys []string
	for {
		f.space()
		key, ok := f.key()
		if !ok {
			return keys
		}
		if keys = append(keys, key); len(keys) > deepest {
			f.tooDeep()
			return keys
		}
		f.space()
		if !f.take(".") {
			return keys
		}
	}
}

func (f *finder) key() (string, bool) {
	start := f.off
	switch f.peek() {
	case '"', '\'':
		f.quoted(f.text[f.off : f.off+1])
		var v struct{ K string }
		// The decoder knows every escape; what it refuses here, it refuses there.
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
