package config

import (
	"dcm/internal/engine/config/kubernetes"
	"dcm/internal/engine/config/rule"
	"dcm/internal/engine/config/source"
	"dcm/internal/sanitize"
)

// layer is a file that was read.
type layer struct {
	file string
	text string
	form layerForm
	// runtime is set for a layer that ends with the boot. It overrides others on purpose.
	runtime bool
	agent   bool // the file of agents, which is used only if [agent] enabled is true
}

// layerForm reads the document of a layer; it returns nil if the layer cannot be read.
type layerForm func(c *rule.Checker, l layer) *source.Node

// foundLayer is a file to read as a layer.
type foundLayer struct {
	source.File
	form    layerForm
	runtime bool
	agent   bool
}

// SelectionFile is the name of the drop-in with a selection until reboot. It sorts after names that
// begin with a digit or a lower-case letter, so that it overrides the other drop-ins.
const SelectionFile = "zz-selected.toml"

// NewReader returns a reader of the files at these paths.
func (p Paths) NewReader() *source.Reader {
	r := source.NewReader(p.Root, p.given, p.without)
	if p.Judged {
		r.AcceptAnyOwner(p.Admin)
	}
	return r
}

// layers reads all files in order. It reads none if they exceed a limit.
func (p Paths) layers() ([]layer, []source.Problem) {
	r := p.NewReader()
	found := p.findLayers(r)
	files := make([]source.File, len(found))
	for i, f := range found {
		files[i] = f.File
	}
	if !r.Bounded(files) {
		return nil, r.Problems
	}
	return readLayers(r, found), r.Problems
}

// findLayers returns the existing files in the order of precedence, the lowest first.
func (p Paths) findLayers(r *source.Reader) []foundLayer {
	var found []foundLayer
	add := func(path sanitize.Name, l foundLayer) {
		var ok bool
		if l.File, ok = r.Find(path); ok {
			found = append(found, l)
		}
	}
	for _, file := range r.List(p.Shipped, ".toml") {
		add(file, foundLayer{form: tomlForm(schema)})
	}
	add(sanitize.Named(p.Kubernetes), foundLayer{form: readKubernetes})
	add(sanitize.Named(p.Admin), foundLayer{form: tomlForm(schema)})
	add(sanitize.Named(p.Agent), foundLayer{form: tomlForm(agentSchema), agent: true})
	for _, file := range r.List(p.Local, ".toml") {
		add(file, foundLayer{form: tomlForm(schema)})
	}
	for _, file := range r.List(p.Runtime, ".toml") {
		form := schema
		if file == sanitize.Named(p.RuntimeSelection()) {
			form = selectionSchema
		}
		add(file, foundLayer{form: tomlForm(form), runtime: true})
	}
	return found
}

func readLayers(r *source.Reader, found []foundLayer) []layer {
	var layers []layer
	for _, f := range found {
		if text, ok := r.Text(f.Path); ok {
			layers = append(layers, layer{file: f.Path.String(), text: text, form: f.form, runtime: f.runtime, agent: f.agent})
		}
	}
	return layers
}

// readKubernetes reads /etc/dcm/config.json.
func readKubernetes(c *rule.Checker, l layer) *source.Node {
	return kubernetes.Read(c, l.file, l.text, 0, nil)
}

// tomlForm is the form of a TOML file that follows a rule.
func tomlForm(form func() rule.Rule) layerForm {
	return func(c *rule.Checker, l layer) *source.Node {
		root, broken := source.ParseTOML(l.file, l.text)
		if broken != nil {
			c.Problems = append(c.Problems, *broken)
			return nil
		}
		c.Root = form()
		c.Root.Check(c, "", root)
		return root
	}
}
