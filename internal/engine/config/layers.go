package config

import "dcm/internal/sanitize"

// layer is one file that was read.
type layer struct {
	file string
	text string
	form layerForm
	// runtime is a layer that ends with the next boot: it is meant to hide others.
	runtime bool
	agent   bool // the file of agents, which counts only if the others say so
}

// layerForm reads the document of a layer; it returns nil if the layer cannot be read.
type layerForm func(c *checker, l layer) *node

// foundLayer is a file that is to be read as a layer.
type foundLayer struct {
	foundFile
	form    layerForm
	runtime bool
	agent   bool
}

// SelectionFile is the drop-in that holds a selection until reboot. The name sorts
// after every other that begins with a digit or a small letter, so that the command
// wins over the other drop-ins of its directory.
const SelectionFile = "zz-selected.toml"

// newReader returns a reader of the files at these paths.
func (p Paths) newReader() *reader {
	r := newReader(p.Root, p.given, p.without)
	if p.Judged {
		r.acceptAnyOwner(p.Admin)
	}
	return r
}

// layers reads all files in order, unless there are too many.
func (p Paths) layers() ([]layer, []Problem) {
	r := p.newReader()
	found := p.findLayers(r)
	files := make([]foundFile, len(found))
	for i, f := range found {
		files[i] = f.foundFile
	}
	if !r.bounded(files) {
		return nil, r.problems
	}
	return readLayers(r, found), r.problems
}

// findLayers returns the existing files in the order in which they count.
func (p Paths) findLayers(r *reader) []foundLayer {
	var found []foundLayer
	add := func(path sanitize.Name, l foundLayer) {
		var ok bool
		if l.foundFile, ok = r.find(path); ok {
			found = append(found, l)
		}
	}
	for _, file := range r.list(p.Shipped, ".toml") {
		add(file, foundLayer{form: readTOML})
	}
	add(sanitize.Named(p.Kubernetes), foundLayer{form: readKubernetes})
	add(sanitize.Named(p.Admin), foundLayer{form: readTOML})
	add(sanitize.Named(p.Agent), foundLayer{form: readAgent, agent: true})
	for _, file := range r.list(p.Local, ".toml") {
		add(file, foundLayer{form: readTOML})
	}
	for _, file := range r.list(p.Runtime, ".toml") {
		form := readTOML
		if file == sanitize.Named(p.runtimeSelection()) {
			form = readSelection
		}
		add(file, foundLayer{form: form, runtime: true})
	}
	return found
}

func readLayers(r *reader, found []foundLayer) []layer {
	var layers []layer
	for _, f := range found {
		if text, ok := r.text(f.path); ok {
			layers = append(layers, layer{file: f.path.String(), text: text, form: f.form, runtime: f.runtime, agent: f.agent})
		}
	}
	return layers
}
