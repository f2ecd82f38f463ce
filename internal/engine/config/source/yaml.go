package source

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// YAML converts YAML to JSON. Only the command line has a decoder, since its tables would take memory
// in the daemon.
type YAML func(text []byte) (json []byte, err error)

// yamlLines are the lines of a YAML text. They locate values, since the decoder reports no lines. Only
// block style is supported; a value inside braces has the line of the opening brace.
type yamlLines []string

// place sets the lines of the values in n, which is on the lines from to to.
func (y yamlLines) place(n *Node, from, to int) {
	if t, ok := n.Table(); ok {
		var begins []int
		found := y.keys(from, to)
		for key, child := range t {
			if at, ok := found[key]; ok {
				child.Line = at + 1
				begins = append(begins, at)
			} else {
				child.Line = min(from+1, len(y))
			}
		}
		slices.Sort(begins)
		for _, child := range t {
			y.place(child, child.Line-1, after(begins, child.Line-1, to))
		}
		return
	}
	items := n.Items()
	begins := y.dashes(from, to)
	for i, item := range items {
		item.Line = min(from+1, len(y))
		if len(begins) != len(items) {
			y.place(item, from, from)
			continue
		}
		item.Line = begins[i] + 1
		y.place(item, begins[i], after(begins, begins[i], to))
	}
}

// after returns the next element of begins after at, or to.
func after(begins []int, at, to int) int {
	i, _ := slices.BinarySearch(begins, at+1)
	if i < len(begins) {
		return begins[i]
	}
	return to
}

// keys returns the lines of the keys of a table. Of several candidates, the least indented one is the
// key.
func (y yamlLines) keys(from, to int) map[string]int {
	keyForm := regexp.MustCompile(`^((?:[ \t]|- )*)["']?([^"':]+?)["']?[ \t]*:`)
	at, indent := make(map[string]int), make(map[string]int)
	for i := from; i < to; i++ {
		m := keyForm.FindStringSubmatch(y[i])
		if m == nil {
			continue
		}
		if least, ok := indent[m[2]]; !ok || len(m[1]) < least {
			at[m[2]], indent[m[2]] = i, len(m[1])
		}
	}
	return at
}

// dashes returns the lines of the elements of an array.
func (y yamlLines) dashes(from, to int) []int {
	dash := regexp.MustCompile(`^([ \t]*)-(?:[ \t]|$)`)
	var all []int
	least := -1
	for i := from; i < to; i++ {
		m := dash.FindStringSubmatch(y[i])
		switch {
		case m == nil || least >= 0 && len(m[1]) > least:
			continue
		case least < 0 || len(m[1]) < least:
			all, least = nil, len(m[1])
		}
		all = append(all, i)
	}
	return all
}

// SecondYAMLDocument returns the line of the second document of a YAML stream, or 0. The decoder would
// ignore that document.
func SecondYAMLDocument(text string) int {
	begun := false
	parted := 0
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimRight(line, " \t\r")
		switch {
		case line == "---" || strings.HasPrefix(line, "--- "):
			if begun {
				parted = i + 1
			}
		case line == "" || strings.HasPrefix(line, "#"):
		case parted > 0:
			return parted
		default:
			begun = true
		}
	}
	return 0
}

// YAMLErrorLine splits a message of the YAML decoder into the line, 1 if it has none, and the rest.
func YAMLErrorLine(message string) (line int, text string) {
	message = strings.TrimPrefix(strings.TrimPrefix(message, "error converting YAML to JSON: "), "yaml: ")
	m := regexp.MustCompile(`(?s)^line (\d{1,9}): (.*)$`).FindStringSubmatch(message)
	if m == nil {
		return 1, message
	}
	line, _ = strconv.Atoi(m[1])
	return max(line, 1), m[2]
}

// YAMLDocument is a document of a YAML stream, with the number of lines before it.
type YAMLDocument struct {
	Text        string
	LinesBefore int
}

// SplitYAML splits a YAML stream.
func SplitYAML(text string) []YAMLDocument {
	var all []YAMLDocument
	var lines []string
	begin := 0
	whole := strings.Split(text, "\n")
	for i, line := range whole {
		bare := strings.TrimRight(line, " \t\r")
		if bare == "---" || strings.HasPrefix(bare, "--- ") {
			all = append(all, YAMLDocument{strings.Join(lines, "\n"), begin})
			// Text after the marker belongs to the document.
			lines, begin = []string{strings.TrimPrefix(bare, "---")}, i
			continue
		}
		lines = append(lines, line)
	}
	return append(all, YAMLDocument{strings.Join(lines, "\n"), begin})
}

// ParseYAML returns a document in YAML or JSON as nodes. at returns the line of the file that a
// line of the text is on.
func ParseYAML(decode YAML, file, text string, at func(line int) int) (*Node, *Problem) {
	text = strings.TrimPrefix(text, "\ufeff")
	if strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "{") {
		return ParseJSON(NewJSONText(file, text, at(1)))
	}
	if line := SecondYAMLDocument(text); line > 0 {
		return nil, &Problem{File: file, Line: at(line), Text: "a second YAML document", Accepted: "one"}
	}
	js, err := decode([]byte(text))
	if err != nil {
		line, why := YAMLErrorLine(err.Error())
		return nil, &Problem{File: file, Line: at(min(line, 1+strings.Count(text, "\n"))), Text: "not YAML: " + OneLine(why)}
	}
	root, broken := ParseJSON(JSONText{File: file, Text: string(js), FirstLine: 1})
	if broken != nil {
		return nil, broken
	}
	place := yamlLines(strings.Split(text, "\n"))
	place.place(root, 0, len(place))
	root.mapLines(at)
	return root, nil
}
