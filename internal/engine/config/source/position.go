package source

// maxDepth bounds the nesting of values and the parts of a dotted key. The TOML
// decoder takes quadratic time and memory for what is nested deeply, and nothing
// in the schema needs more than a few.
const maxDepth = 16

// position is where a key or an element of an array stands. The TOML decoder
// tells positions only for what is not TOML at all.
type position struct {
	line  int
	own   bool // line is that of its own header or assignment, not of a key below it
	keys  map[string]*position
	items []*position
}

// child returns the position below p, made if need be. In an array of tables it
// is the last table that is meant.
func (p *position) child(key string, line int) *position {
	p = p.last()
	if p.keys == nil {
		p.keys = make(map[string]*position)
	}
	c := p.keys[key]
	if c == nil {
		c = &position{line: line}
		p.keys[key] = c
	}
	return c
}

func (p *position) last() *position {
	if n := len(p.items); n > 0 {
		return p.items[n-1]
	}
	return p
}

func (p *position) add(line int) *position {
	item := &position{line: line, own: true}
	p.items = append(p.items, item)
	return item
}

// path follows a dotted key; the line is that of the end of the path.
func (p *position) path(keys []string, line int) *position {
	for _, key := range keys {
		p = p.child(key, line)
	}
	if !p.own {
		p.line, p.own = line, true
	}
	return p
}

func (p *position) item(i int) *position {
	if i < len(p.items) {
		return p.items[i]
	}
	return nil
}
