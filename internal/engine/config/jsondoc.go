package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// source is a JSON text and where it came from: a file of its own, or a part of
// one.
type source struct {
	file  string
	text  string
	first int   // line of the file that the text begins on
	ends  []int // where its lines end; nil if it is all on one line of the file
}

// lines is a source whose lines are lines of the file, from first on.
func lines(file, text string, first int) source {
	s := source{file: file, text: text, first: first}
	for i := range text {
		if text[i] == '\n' {
			s.ends = append(s.ends, i)
		}
	}
	return s
}

// line is the line of the file that a byte of the text is on.
func (s source) line(offset int) int {
	n, _ := slices.BinarySearch(s.ends, offset)
	return s.first + n
}

func (s source) fail(offset int, format string, args ...any) *Problem {
	return &Problem{File: s.file, Line: s.line(offset), Text: fmt.Sprintf(format, args...)}
}

// parseJSON returns the document as nodes, or what keeps it from being read. A
// key given twice is refused: JSON leaves open which one counts.
func parseJSON(s source) (*node, *Problem) {
	var raw json.RawMessage
	if err := json.Unmarshal([]byte(s.text), &raw); err != nil {
		offset := len(s.text)
		var at *json.SyntaxError
		if errors.As(err, &at) {
			offset = min(max(int(at.Offset)-1, 0), len(s.text))
		}
		return nil, s.fail(offset, "not JSON: %s", oneLine(err.Error()))
	}
	d := &jsonReader{source: s, dec: json.NewDecoder(strings.NewReader(s.text))}
	d.dec.UseNumber()
	n := d.value()
	return n, d.problem
}

type jsonReader struct {
	source
	dec     *json.Decoder
	depth   int
	problem *Problem // the first
}

// here is the line that the last token ends on, which is the one it starts on.
func (d *jsonReader) here() int { return d.line(int(d.dec.InputOffset())) }

func (d *jsonReader) token() json.Token {
	t, err := d.dec.Token()
	if err != nil && d.problem == nil {
		d.problem = d.fail(int(d.dec.InputOffset()), "not JSON: %s", oneLine(err.Error()))
	}
	return t
}

func (d *jsonReader) value() *node {
	n := &node{file: d.file}
	t := d.token()
	n.line = d.here()
	switch t := t.(type) {
	case json.Delim:
		if d.depth++; d.depth > deepest && d.problem == nil {
			d.problem = d.fail(int(d.dec.InputOffset()), "nested more than %d deep", deepest)
		}
		if t == '{' {
			n.value = d.object()
		} else {
			n.value = d.array()
		}
		d.depth--
	case json.Number:
		n.value = number(t)
	case string, bool:
		n.value = t
	}
	return n
}

func number(t json.Number) any {
	if i, err := t.Int64(); err == nil {
		return i
	}
	f, _ := t.Float64()
	return f
}

func (d *jsonReader) object() table {
	all := make(table)
	for d.problem == nil && d.dec.More() {
		key, _ := d.token().(string)
		at := d.here()
		if before := all[key]; before != nil && d.problem == nil {
			d.problem = d.fail(int(d.dec.InputOffset()), "%s is given twice, first on line %d", clip(key), before.line)
		}
		n := d.value()
		n.line = at
		all[key] = n
	}
	if d.problem == nil {
		d.token()
	}
	return all
}

func (d *jsonReader) array() []*node {
	all := []*node{}
	for d.problem == nil && d.dec.More() {
		all = append(all, d.value())
	}
	if d.problem == nil {
		d.token()
	}
	return all
}
