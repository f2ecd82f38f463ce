package importer

import (
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"dcm/internal/engine/config/source"
)

// maxValues limits the values of a document. Aliases can refer to a value many times.
const maxValues = 100_000

// maxNesting limits the nesting of values. An alias can be inside the value that it refers to.
const maxNesting = 32

// parseYAML is a [source.YAML].
func parseYAML(file, text string, at func(line int) int) (*source.Node, *source.Problem) {
	text = strings.TrimPrefix(text, "\ufeff")
	if strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "{") {
		return source.ParseJSON(source.NewJSONText(file, text, at(1)))
	}
	documents, broken := readDocuments(file, text, at)
	switch {
	case broken != nil:
		return nil, broken
	case len(documents) == 0:
		return &source.Node{File: file, Line: at(1)}, nil
	case len(documents) > 1:
		return nil, &source.Problem{File: file, Line: at(documents[1].Line), Text: "a second YAML document", Accepted: "one"}
	}
	return convert(file, documents[0], at)
}

// readDocuments returns the values of the documents of a YAML stream. Empty documents are left out.
func readDocuments(file, text string, at func(line int) int) ([]*yaml.Node, *source.Problem) {
	var all []*yaml.Node
	for decoder := yaml.NewDecoder(strings.NewReader(text)); ; {
		var document yaml.Node
		switch err := decoder.Decode(&document); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			line, why := errorLine(err.Error())
			return nil, &source.Problem{File: file, Line: at(min(line, 1+strings.Count(text, "\n"))), Text: "not YAML: " + source.OneLine(why)}
		}
		if value := document.Content[0]; value.ShortTag() != "!!null" {
			all = append(all, value)
		}
	}
}

// errorLine splits a message of the decoder into the line, 1 if it has none, and the rest.
func errorLine(message string) (line int, text string) {
	message = strings.TrimPrefix(message, "yaml: ")
	m := regexp.MustCompile(`(?s)^line (\d{1,9}): (.*)$`).FindStringSubmatch(message)
	if m == nil {
		return 1, message
	}
	line, _ = strconv.Atoi(m[1])
	return max(line, 1), m[2]
}

// convert returns a value of a document as nodes.
func convert(file string, n *yaml.Node, at func(line int) int) (*source.Node, *source.Problem) {
	c := &converter{file: file, at: at, left: maxValues}
	return c.value(n, n.Line, 0), c.problem
}

type converter struct {
	file    string
	at      func(line int) int
	left    int             // values that are still accepted
	problem *source.Problem // the first
}

func (c *converter) fail(line int, text string) {
	if c.problem == nil {
		c.problem = &source.Problem{File: c.file, Line: c.at(line), Text: "not YAML: " + text}
	}
}

// value returns a value that is on a line, which is that of its key in a mapping.
func (c *converter) value(n *yaml.Node, line, depth int) *source.Node {
	out := &source.Node{File: c.file, Line: c.at(line)}
	c.left--
	switch {
	case c.problem != nil:
	case c.left < 0:
		c.fail(line, "more than "+strconv.Itoa(maxValues)+" values")
	case depth > maxNesting:
		c.fail(line, "nested more than "+strconv.Itoa(maxNesting)+" deep")
	case n.Kind == yaml.AliasNode:
		return c.value(n.Alias, line, depth+1)
	case n.Kind == yaml.MappingNode:
		out.Value = c.table(n, depth)
	case n.Kind == yaml.SequenceNode:
		items := []*source.Node{}
		for _, item := range n.Content {
			items = append(items, c.value(item, item.Line, depth+1))
		}
		out.Value = items
	default:
		out.Value = scalar(n)
	}
	return out
}

func (c *converter) table(n *yaml.Node, depth int) source.Table {
	all := make(source.Table)
	var merged []*source.Node
	for i := 0; i+1 < len(n.Content) && c.problem == nil; i += 2 {
		key, value := n.Content[i], c.value(n.Content[i+1], n.Content[i].Line, depth+1)
		before := all[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode:
			c.fail(key.Line, "a key must be a string")
		case key.ShortTag() == "!!merge":
			merged = append(merged, append([]*source.Node{value}, value.Items()...)...)
		case before != nil:
			c.fail(key.Line, source.QuoteShort(key.Value)+" is given twice, first on line "+strconv.Itoa(before.Line))
		default:
			all[key.Value] = value
		}
	}
	for _, table := range merged {
		for key, value := range source.Children(table) {
			if all[key] == nil {
				all[key] = value
			}
		}
	}
	return all
}

func scalar(n *yaml.Node) any {
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		return strings.EqualFold(n.Value, "true")
	case "!!int":
		var i int64
		if n.Decode(&i) == nil {
			return i
		}
	case "!!float":
		var f float64
		if n.Decode(&f) == nil {
			return f
		}
	}
	// Kubernetes and mig-parted read YAML 1.1, in which these words are booleans without quotes.
	switch word := strings.ToLower(n.Value); {
	case n.Style != 0:
	case slices.Contains([]string{"y", "yes", "on"}, word):
		return true
	case slices.Contains([]string{"n", "no", "off"}, word):
		return false
	}
	return n.Value
}
