package config

import (
	"regexp"
	"strings"
)

// document is one document of a YAML stream, and how many lines of the file are before it.
type document struct {
	text   string
	before int
}

// documents splits a YAML stream.
func documents(text string) []document {
	var all []document
	var lines []string
	begin := 0
	whole := strings.Split(text, "\n")
	for i, line := range whole {
		bare := strings.TrimRight(line, " \t\r")
		if bare == "---" || strings.HasPrefix(bare, "--- ") {
			all = append(all, document{strings.Join(lines, "\n"), begin})
			// What follows the marker on its line belongs to the document.
			lines, begin = []string{strings.TrimPrefix(bare, "---")}, i
			continue
		}
		lines = append(lines, line)
	}
	return append(all, document{strings.Join(lines, "\n"), begin})
}

func configMapKind() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^[ \t-]*["']?kind["']?[ \t]*:[ \t]*["']?ConfigMap|"kind"[ \t\n]*:[ \t\n]*"ConfigMap`)
}

// unfold returns mig-parted's files that the ConfigMaps in a file hold, as those of the GPU
// operator do: config.yaml, clients.yaml. It returns the file itself if there is no such
// ConfigMap, or one of the Kubernetes form. Other objects in the file are ignored.
func (c *importer) unfold(f File) ([]File, *Problem) {
	var held []File
	for _, d := range documents(strings.TrimPrefix(string(f.Text), "\ufeff")) {
		if !configMapKind().MatchString(d.text) {
			continue
		}
		root, broken := c.plainYAML(File{Name: f.Name, Text: []byte(d.text), before: d.before})
		if broken != nil {
			return nil, broken
		}
		for _, object := range append([]*node{root}, root.at("items").items()...) {
			if kind, _ := object.at("kind").text(); kind != "ConfigMap" {
				continue
			}
			data := tables(object.at("data"))
			if data[inConfigMap] != nil {
				return []File{f}, nil
			}
			for _, key := range data.keys() {
				text, ok := data[key].text()
				if k := kindOf(text); ok && (k == aConfig || k == aClients || k == aHooks) {
					held = append(held, embedded(f, text, data[key].line))
				}
			}
		}
	}
	if len(held) == 0 {
		return []File{f}, nil
	}
	return held, nil
}

// embedded is the text of a key on a line of a file. As a literal block its lines are those
// of the file; of any other form all are on the line of the key.
func embedded(f File, text string, line int) File {
	out := File{Name: f.Name, Text: []byte(text), before: line - 1, flat: true}
	lines := strings.Split(string(f.Text), "\n")
	begin, _, _ := strings.Cut(text, "\n")
	if line < len(lines) && strings.TrimSpace(lines[line]) == strings.TrimSpace(begin) {
		out.before, out.flat = line, false
	}
	return out
}

// at is the line of the file that a line of the text is.
func (f File) at(line int) int {
	if f.flat {
		line = 1
	}
	return f.before + line
}

// place gives a document, which has the lines of the text, those of the file.
func (f File) place(n *node) {
	n.line = f.at(n.line)
	for _, child := range tables(n) {
		f.place(child)
	}
	for _, child := range n.items() {
		f.place(child)
	}
}

func clientsKey() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^["']?` + inClients + `["']?[ \t]*:|"` + inClients + `"[ \t\n]*:`)
}

// inClients is the key of the units that the GPU operator's MIG manager stops.
const inClients = "systemd-services"

// stopped takes the units of a clients.yaml as clients.
func (c *importer) stopped(f File, cfg *Config) {
	root, broken := c.plainYAML(f)
	if broken != nil {
		c.problems = append(c.problems, *broken)
		return
	}
	for _, n := range root.at(inClients).items() {
		if name, ok := n.text(); ok {
			c.client(cfg, n, name)
		} else {
			c.fail(n, inClients, wrongType("a string", n))
		}
	}
}
