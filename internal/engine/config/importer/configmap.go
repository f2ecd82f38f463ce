package importer

import (
	"regexp"
	"strings"

	"dcm/internal/engine/config"
	"dcm/internal/engine/config/kubernetes"
	"dcm/internal/engine/config/rule"
	"dcm/internal/engine/config/source"
)

func configMapKind() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^[ \t-]*["']?kind["']?[ \t]*:[ \t]*["']?ConfigMap|"kind"[ \t\n]*:[ \t\n]*"ConfigMap`)
}

// unfold returns mig-parted's files in the ConfigMaps of a file: config.yaml and clients.yaml of the
// GPU operator. It returns the file itself if it has no such ConfigMap, or one of the Kubernetes form.
// It ignores other objects.
func (c *importer) unfold(f File) ([]File, *source.Problem) {
	var held []File
	for _, d := range source.SplitYAML(strings.TrimPrefix(string(f.Text), "\ufeff")) {
		if !configMapKind().MatchString(d.Text) {
			continue
		}
		root, broken := c.parse(File{Name: f.Name, Text: []byte(d.Text), before: d.LinesBefore})
		if broken != nil {
			return nil, broken
		}
		for _, object := range append([]*source.Node{root}, root.At("items").Items()...) {
			if kind, _ := object.At("kind").Text(); kind != "ConfigMap" {
				continue
			}
			data := source.Children(object.At("data"))
			if data[kubernetes.DocumentKey] != nil {
				return []File{f}, nil
			}
			for _, key := range data.Keys() {
				text, ok := data[key].Text()
				if k := kindOf(text); ok && (k == kindConfig || k == kindClients || k == kindHooks) {
					held = append(held, embedded(f, text, data[key].Line))
				}
			}
		}
	}
	if len(held) == 0 {
		return []File{f}, nil
	}
	return held, nil
}

// embedded returns the text of a key of a file. In a literal block its lines are lines of the file;
// otherwise all have the line of the key.
func embedded(f File, text string, line int) File {
	out := File{Name: f.Name, Text: []byte(text), before: line - 1, flat: true}
	lines := strings.Split(string(f.Text), "\n")
	begin, _, _ := strings.Cut(text, "\n")
	if line < len(lines) && strings.TrimSpace(lines[line]) == strings.TrimSpace(begin) {
		out.before, out.flat = line, false
	}
	return out
}

// at returns the line of the file for a line of the text.
func (f File) at(line int) int {
	if f.flat {
		line = 1
	}
	return f.before + line
}

func clientsKey() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^["']?` + servicesKey + `["']?[ \t]*:|"` + servicesKey + `"[ \t\n]*:`)
}

// servicesKey is the key of the units that the MIG manager of the GPU operator stops.
const servicesKey = "systemd-services"

// addClients adds the units of a clients.yaml to the clients.
func (c *importer) addClients(f File, cfg *config.Config) {
	root, broken := c.parse(f)
	if broken != nil {
		c.Problems = append(c.Problems, *broken)
		return
	}
	for _, n := range root.At(servicesKey).Items() {
		if name, ok := n.Text(); ok {
			c.client(cfg, n, name)
		} else {
			c.Fail(n, servicesKey, rule.WrongType("a string", n))
		}
	}
}
