package source

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// JSONText is a JSON text in a file, or in a part of a file.
type JSONText struct {
	File      string
	Text      string
	FirstLine int   // line of the file on which the text begins
	lineEnds  []int // offsets of the line ends; nil if the text is on one line of the file
}

// NewJSONText returns a JSON text whose lines are lines of the file, from line first on.
func NewJSONText(file, text string, first int) JSONText {
	s := JSONText{File: file, Text: text, FirstLine: first}
	for i := range text {
		if text[i] == '\n' {
			s.lineEnds = append(s.lineEnds, i)
		}
	}
	return s
}

// line returns the line of the file for a byte offset of the text.
func (s JSONText) line(offset int) int {
	n, _ := slices.BinarySearch(s.lineEnds, offset)
	return s.FirstLine + n
}

func (s JSONText) fail(offset int, format string, args ...any) *Problem {
	return &Problem{File: s.File, Line: s.line(offset), Text: fmt.Sprintf(format, args...)}
}

// ParseJSON returns the document as nodes, or the first problem. A repeated key is a problem, since
// JSON does not define which value is used.
func ParseJSON(s JSONText) (*Node, *Problem) {
	var raw json.RawMessage
	if err := json.Unmarshal([]byte(s.Text), &raw); err != nil {
		offset := len(s.Text)
		var at *json.SyntaxError
		if errors.As(err, &at) {
			offset = min(max(int(at.Offset)-1, 0), len(s.Text))
		}
		return nil, s.fail(offset, "not JSON: %s", OneLine(err.Error()))
	}
	d := &jsonReader{JSONText: s, dec: json.NewDecoder(strings.NewReader(s.Text))}
	d.dec.UseNumber()
	n := d.value()
	return n, d.problem
}

type jsonReader struct {
	JSONText
	dec     *json.Decoder
	depth   int
	problem *Problem // the first
}

// here returns the line of the last token. A token does not span lines.
func (d *jsonReader) here() int { return d.line(int(d.dec.InputOffset())) }

func (d *jsonReader) token() json.Token {
	t, err := d.dec.Token()
	if err != nil && d.problem == nil {
		d.problem = d.fail(int(d.dec.InputOffset()), "not JSON: %s", OneLine(err.Error()))
	}
	return t
}

func (d *jsonReader) value() *Node {
	n := &Node{File: d.File}
	t := d.token()
	n.Line = d.here()
	switch t := t.(type) {
	case json.Delim:
		if d.depth++; d.depth > maxDepth && d.problem == nil {
			d.problem = d.fail(int(d.dec.InputOffset()), "nested more than %d deep", maxDepth)
		}
		if t == '{' {
			n.Value = d.object()
		} else {
			n.Value = d.array()
		}
		d.depth--
	case json.Number:
		n.Value = number(t)
	case string, bool:
		n.Value = t
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

func (d *jsonReader) object() Table {
	all := make(Table)
	for d.problem == nil && d.dec.More() {
		key, _ := d.token().(string)
		at := d.here()
		if before := all[key]; before != nil && d.problem == nil {
			d.problem = d.fail(int(d.dec.InputOffset()), "%s is given twice, first on line %d", QuoteShort(key), before.Line)
		}
		n := d.value()
		n.Line = at
		all[key] = n
	}
	if d.problem == nil {
		d.token()
	}
	return all
}

func (d *jsonReader) array() []*Node {
	all := []*Node{}
	for d.problem == nil && d.dec.More() {
		all = append(all, d.value())
	}
	if d.problem == nil {
		d.token()
	}
	return all
}
