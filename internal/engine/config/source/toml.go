package source

import (
	"errors"
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"
)

// ParseTOML returns the document as nodes, or the first problem.
func ParseTOML(file, text string) (*Node, *Problem) {
	text = strings.TrimPrefix(text, "\ufeff")
	where, deep := positions(text)
	if deep > 0 {
		return nil, &Problem{File: file, Line: deep, Text: fmt.Sprintf("nested more than %d deep", maxDepth)}
	}
	doc := make(map[string]any)
	if _, err := toml.Decode(text, &doc); err != nil {
		return nil, notTOML(file, text, err)
	}
	return fromTOML(file, doc, where, 1), nil
}

func notTOML(file, text string, err error) *Problem {
	p := &Problem{File: file, Line: 1, Text: "not TOML: " + OneLine(err.Error())}
	var at toml.ParseError
	if !errors.As(err, &at) {
		return p
	}
	p.Line = max(at.Position.Line, 1)
	p.Text = "not TOML: " + OneLine(at.Message)
	if value, kind, number := strings.Cut(at.Message, " is out of range for "); number {
		p.Key, p.Value, p.Text = OneLine(at.LastKey), OneLine(value), "not TOML: out of range for "+OneLine(kind)
	}
	// If a line ends too early, the decoder may report the next line.
	if start := at.Position.Start; start >= 0 && start < len(text) && text[start] == '\n' && strings.Contains(at.Message, `'\n'`) {
		p.Line = 1 + strings.Count(text[:start], "\n")
	}
	return p
}

// fromTOML combines decoded values with their positions. A value without a position has that of its
// parent.
func fromTOML(file string, v any, at *position, line int) *Node {
	if at == nil {
		at = &position{line: line}
	}
	n := &Node{File: file, Line: at.line, Value: v}
	switch v := v.(type) {
	case map[string]any:
		t := make(Table, len(v))
		for key, child := range v {
			t[key] = fromTOML(file, child, at.keys[key], at.line)
		}
		n.Value = t
	case []map[string]any:
		items := make([]*Node, len(v))
		for i, child := range v {
			items[i] = fromTOML(file, child, at.item(i), at.line)
		}
		n.Value = items
	case []any:
		items := make([]*Node, len(v))
		for i, child := range v {
			items[i] = fromTOML(file, child, at.item(i), at.line)
		}
		n.Value = items
	}
	return n
}
