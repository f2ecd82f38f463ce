package config

import (
	"regexp"
	"slices"
	"strings"
)

// YAML turns YAML into JSON. Only the command line has one: a decoder's tables would cost the
// units' program memory at each start.
type YAML func(text []byte) (json []byte, err error)

// plainYAML reads a file in YAML, of which JSON is a part.
func (c *importer) plainYAML(f File) (*node, *Problem) {
	text := strings.TrimPrefix(string(f.Text), "\ufeff")
	if strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "{") {
		return parseJSON(lines(f.Name, text, f.at(1)))
	}
	if line := secondDocument(text); line > 0 {
		return nil, &Problem{File: f.Name, Line: f.at(line), Text: "a second YAML document", Accepted: "one"}
	}
	js, err := c.yaml([]byte(text))
	if err != nil {
		line, why := lineIn(err.Error())
		return nil, &Problem{File: f.Name, Line: f.at(min(line, 1+strings.Count(text, "\n"))), Text: "not YAML: " + oneLine(why)}
	}
	root, broken := parseJSON(source{file: f.Name, text: string(js), first: 1})
	if broken != nil {
		return nil, broken
	}
	place := yamlLines(strings.Split(text, "\n"))
	place.settle(root, 0, len(place))
	f.place(root)
	return root, nil
}

// yamlLines gives values back the lines that the decoder does not tell. It knows the
// block style that everybody writes; what is within braces stands where the braces
// begin.
type yamlLines []string

// settle places what is in n, which is written in these lines.
func (y yamlLines) settle(n *node, from, to int) {
	if t, ok := n.table(); ok {
		var begins []int
		found := y.keys(from, to)
		for key, child := range t {
			if at, ok := found[key]; ok {
				child.line = at + 1
				begins = append(begins, at)
			} else {
				child.line = min(from+1, len(y))
			}
		}
		slices.Sort(begins)
		for _, child := range t {
			y.settle(child, child.line-1, after(begins, child.line-1, to))
		}
		return
	}
	items := n.items()
	begins := y.dashes(from, to)
	for i, item := range items {
		item.line = min(from+1, len(y))
		if len(begins) != len(items) {
			y.settle(item, from, from)
			continue
		}
		item.line = begins[i] + 1
		y.settle(item, begins[i], after(begins, begins[i], to))
	}
}

// after is where the next one begins.
func after(begins []int, at, to int) int {
	i, _ := slices.BinarySearch(begins, at+1)
	if i < len(begins) {
		return begins[i]
	}
	return to
}

// keys finds the lines of the keys of a table: of those that look like one, the one that
// is indented least.
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

// dashes finds the lines of the elements of an array.
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
