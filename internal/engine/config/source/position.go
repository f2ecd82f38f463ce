package source

// maxDepth limits the nesting of values and the parts of a dotted key, since the TOML decoder takes
// quadratic time and memory for deep nesting.
const maxDepth = 16

// position is the line of a key or of an array element. The TOML decoder reports positions only for
// syntax errors.
type position struct {
	line  int
	own   bool // line is that of the header or assignment, not of a key below it
	keys  map[string]*position
	items []*position
}

// child returns the position of a key below p, and creates it if necessary. In an array of tables, the
// key belongs to the last table.
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

// path follows a dotted key and sets the line of its last part.
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
