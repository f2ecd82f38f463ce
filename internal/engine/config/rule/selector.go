package rule

import (
	"fmt"

	"dcm/internal/engine/config/source"
	"dcm/internal/gpu/partition"
)

// Selectors is the rule of an array of GPUs without repetitions.
func Selectors() Rule {
	each := Rule{Check: func(c *Checker, key string, n *source.Node) {
		if _, f := ParseSelector(n.Value); f != nil {
			c.Fail(n, key, f)
		}
	}}
	return List(each, func(c *Checker, key string, n *source.Node) {
		first := make(map[partition.Selector]*source.Node)
		for _, item := range n.Items() {
			s, f := ParseSelector(item.Value)
			if f != nil {
				continue
			}
			if before := first[s]; before != nil {
				c.Fail(item, key, &source.Fault{Text: fmt.Sprintf("GPU %s is listed twice, first on line %d", s, before.Line), Accepted: "each GPU once"})
				continue
			}
			first[s] = item
		}
	})
}

// ParseSelector parses a PCI address or an index.
func ParseSelector(v any) (partition.Selector, *source.Fault) {
	f := &source.Fault{Text: "not a GPU", Accepted: `PCI addresses such as "0000:0c:00.0", indices in PCI order such as 0`}
	switch v := v.(type) {
	case int64:
		if v >= 0 && v < MaxGPUs {
			return partition.Selector{Index: int(v)}, nil
		}
	case string:
		if a, err := partition.ParseAddress(v); err == nil {
			return partition.Selector{Address: a}, nil
		}
		if _, err := partition.ParseSelector(v); err == nil {
			f.Text = "an index is written without quotes"
		}
	}
	return partition.Selector{}, f
}

// ReadSelectors returns checked selectors.
func ReadSelectors(n *source.Node) []partition.Selector {
	var all []partition.Selector
	for _, item := range n.Items() {
		s, _ := ParseSelector(item.Value)
		all = append(all, s)
	}
	return all
}

// FormatSelector returns a selector as TOML.
func FormatSelector(s partition.Selector) string {
	if s.Address == "" {
		return s.String()
	}
	return source.Quote(s.String())
}
