package examples

import (
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Command is one command of an example: what a reader enters before the prompt returns.
type Command struct {
	Line   int    // in the file
	Text   string // with here-documents and continued lines
	Output string // that a session shows
}

// Commands returns the commands of an example in their order. An example of another kind has none.
func (e Example) Commands() ([]Command, error) {
	switch e.Kind {
	case Session:
		return e.session()
	case Script:
		return e.statements(e.Text, e.Line)
	}
	return nil, nil
}

// session returns the commands of a session. A command goes on until it is complete; the lines after
// it are its output.
func (e Example) session() ([]Command, error) {
	var out []Command
	lines := strings.Split(e.Text, "\n")
	for i := 0; i < len(lines); i++ {
		text, ok := strings.CutPrefix(lines[i], "$ ")
		if !ok {
			if n := len(out); n > 0 {
				out[n-1].Output += lines[i] + "\n"
			}
			continue
		}
		line := e.Line + i
		for incomplete(text) && i+1 < len(lines) {
			i++
			text += "\n" + lines[i]
		}
		found, err := e.statements(text, line)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

func incomplete(text string) bool {
	if strings.HasSuffix(text, `\`) {
		return true
	}
	_, err := syntax.NewParser().Parse(strings.NewReader(text+"\n"), "")
	return syntax.IsIncomplete(err) || err != nil && strings.Contains(err.Error(), "unclosed here-document")
}

// statements returns the statements of a script for bash.
func (e Example) statements(text string, line int) ([]Command, error) {
	file, err := syntax.NewParser().Parse(strings.NewReader(text+"\n"), "")
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", e, err, text)
	}
	var out []Command
	for i, s := range file.Stmts {
		end := len(text)
		if i+1 < len(file.Stmts) {
			end = int(file.Stmts[i+1].Pos().Offset())
		}
		out = append(out, Command{Line: line + int(s.Pos().Line()) - 1, Text: strings.TrimSpace(text[s.Pos().Offset():end])})
	}
	return out, nil
}

// Calls returns the arguments of each program that a command calls, without sudo and assignments of variables. An argument that
// the shell expands is as it is printed.
func (c Command) Calls() ([][]string, error) {
	file, err := syntax.NewParser().Parse(strings.NewReader(c.Text+"\n"), "")
	if err != nil {
		return nil, err
	}
	var out [][]string
	syntax.Walk(file, func(n syntax.Node) bool {
		call, ok := n.(*syntax.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		var words []string
		for _, w := range call.Args {
			words = append(words, literal(c.Text, w))
		}
		words = slices.DeleteFunc(words, func(w string) bool { return w == "sudo" || w == "exec" })
		for len(words) > 0 && words[0] != "" && strings.Contains(words[0], "=") { // sudo NAME=VALUE
			words = words[1:]
		}
		if len(words) > 0 {
			out = append(out, words)
		}
		return true
	})
	return out, nil
}

// literal returns the value of a word, or its text if the shell expands it.
func literal(text string, w *syntax.Word) string {
	var out strings.Builder
	for _, part := range w.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			out.WriteString(p.Value)
			continue
		case *syntax.SglQuoted:
			out.WriteString(p.Value)
			continue
		case *syntax.DblQuoted:
			if len(p.Parts) == 1 {
				if l, ok := p.Parts[0].(*syntax.Lit); ok {
					out.WriteString(l.Value)
					continue
				}
			}
		}
		return text[w.Pos().Offset():w.End().Offset()]
	}
	return out.String()
}
