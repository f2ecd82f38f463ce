package importer

import (
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

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
	if !configMapKind().Match(f.Text) {
		return []File{f}, nil
	}
	roots, broken := objects(f)
	if broken != nil {
		return nil, broken
	}
	var held []File
	for _, root := range roots {
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
					held = append(held, embedded(f, text, data[key]))
				}
			}
		}
	}
	if len(held) == 0 {
		return []File{f}, nil
	}
	return held, nil
}

// objects returns the objects of a file that can have a ConfigMap: those of this kind, and lists.
func objects(f File) ([]*source.Node, *source.Problem) {
	text := strings.TrimPrefix(string(f.Text), "\ufeff")
	if strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "{") {
		root, broken := parseYAML(f.Name, text, f.at)
		return []*source.Node{root}, broken
	}
	documents, broken := readDocuments(f.Name, text, f.at)
	if broken != nil {
		return nil, broken
	}
	var all []*source.Node
	for _, document := range documents {
		if kind := valueOf(document, "kind"); kind != "ConfigMap" && !strings.HasSuffix(kind, "List") {
			continue
		}
		root, broken := convert(f.Name, document, f.at)
		if broken != nil {
			return nil, broken
		}
		all = append(all, root)
	}
	return all, nil
}

// valueOf returns the scalar of a key of a mapping, or "".
func valueOf(n *yaml.Node, key string) string {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1].Value
		}
	}
	return ""
}

// embedded returns the text of a key of a file. In a literal block its lines are lines of the file;
// otherwise all have the line of the key.
func embedded(f File, text string, key *source.Node) File {
	if key.InBlockOf(string(f.Text)) {
		return File{Name: f.Name, Text: []byte(text), before: key.Line}
	}
	return File{Name: f.Name, Text: []byte(text), before: key.Line - 1, flat: true}
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
