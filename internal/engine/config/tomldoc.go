package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"

	"dcm/internal/sanitize"
)

// parseTOML returns the document as nodes, or what keeps it from being read.
func parseTOML(file, text string) (*node, *Problem) {
	text = strings.TrimPrefix(text, "\ufeff")
	where, deep := locate(text)
	if deep > 0 {
		return nil, &Problem{File: file, Line: deep, Text: fmt.Sprintf("nested more than %d deep", deepest)}
	}
	doc := make(map[string]any)
	if _, err := toml.Decode(text, &doc); err != nil {
		return nil, notTOML(file, text, err)
	}
	return fromTOML(file, doc, where, 1), nil
}

func notTOML(file, text string, err error) *Problem {
	p := &Problem{File: file, Line: 1, Text: "not TOML: " + oneLine(err.Error())}
	var at toml.ParseError
	if !errors.As(err, &at) {
		return p
	}
	p.Line = max(at.Position.Line, 1)
	p.Text = "not TOML: " + oneLine(at.Message)
	// Where a line ends too early, the decoder may already count the next one.
	if start := at.Position.Start; start >= 0 && start < len(text) && text[start] == '\n' && strings.Contains(at.Message, `'\n'`) {
		p.Line = 1 + strings.Count(text[:start], "\n")
	}
	return p
}

// oneLine gives a message of a library the form of ours: one line that neither
// begins nor ends as a sentence.
func oneLine(s string) string {
	s = sanitize.Text(strings.TrimSuffix(strings.Join(strings.Fields(s), " "), "."))
	if r := []rune(s); len(r) > 300 {
		s = string(r[:300]) + "…"
	}
	if s == "" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}

// fromTOML joins what the decoder read with where it stands. What has no
// position of its own has that of what it is in.
func fromTOML(file string, v any, at *position, line int) *node {
	if at == nil {
		at = &position{line: line}
	}
	n := &node{file: file, line: at.line, value: v}
	switch v := v.(type) {
	case map[string]any:
		t := make(table, len(v))
		for key, child := range v {
			t[key] = fromTOML(file, child, at.keys[key], at.line)
		}
		n.value = t
	case []map[string]any:
		items := make([]*node, len(v))
		for i, child := range v {
			items[i] = fromTOML(file, child, at.item(i), at.line)
		}
		n.value = items
	case []any:
		items := make([]*node, len(v))
		for i, child := range v {
			items[i] = fromTOML(file, child, at.item(i), at.line)
		}
		n.value = items
	}
	return n
}

func (p *position) item(i int) *position {
	if i < len(p.items) {
		return p.items[i]
	}
	return nil
}
