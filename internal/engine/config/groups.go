package config

import (
	"fmt"

	"dcm/internal/gpu/partition"
)

// groups is the array of groups of a profile.
func groups() rule {
	return list(fixed(map[string]rule{
		"compute": oneOf("a compute partition mode", partition.ComputeModes()...),
		"mig":     mig(),
		"device":  devices(),
		"count":   count(),
		"gpus":    selectors(),
	}, oneGroup), allGroups)
}

const rest = "rest"

// mostGPUs bounds counts and indices.
const mostGPUs = 1 << 16

// count is how many GPUs a group takes, or the rest.
func count() rule {
	accepted := `an integer from 1, or "rest"`
	return rule{judge: func(c *checker, key string, n *node) {
		switch v := n.value.(type) {
		case int64:
			if v < 1 || v > mostGPUs {
				c.fail(n, key, &fault{text: "no number of GPUs", accepted: accepted})
			}
		case string:
			if v != rest {
				c.fail(n, key, &fault{"no number of GPUs", accepted, nearest(v, []string{rest})})
			}
		default:
			c.fail(n, key, wrongType(accepted, n))
		}
	}}
}

// selectors is an array that names GPUs, each once.
func selectors() rule {
	each := rule{judge: func(c *checker, key string, n *node) {
		if _, f := selector(n.value); f != nil {
			c.fail(n, key, f)
		}
	}}
	return list(each, func(c *checker, key string, n *node) {
		first := make(map[partition.Selector]*node)
		for _, item := range n.items() {
			s, f := selector(item.value)
			if f != nil {
				continue
			}
			if before := first[s]; before != nil {
				c.fail(item, key, &fault{text: fmt.Sprintf("GPU %s is named twice, first on line %d", s, before.line)})
				continue
			}
			first[s] = item
		}
	})
}

func selector(v any) (partition.Selector, *fault) {
	f := &fault{text: "names no GPU", accepted: `PCI addresses such as "0000:0c:00.0", indices in PCI order such as 0`}
	switch v := v.(type) {
	case int64:
		if v >= 0 && v < mostGPUs {
			return partition.Selector{Index: int(v)}, nil
		}
	case string:
		if a, err := partition.ParseAddress(v); err == nil {
			return partition.Selector{Address: a}, nil
		}
		if _, err := partition.ParseSelector(v); err == nil {
			f.text = "an index is written without quotes"
		}
	}
	return partition.Selector{}, f
}

// oneGroup judges the keys of a group together.
func oneGroup(c *checker, key string, n *node) {
	compute, number, gpus := n.at("compute"), n.at("count"), n.at("gpus")
	by, device := n.at("mig"), n.at("device")
	switch {
	case compute == nil && by == nil:
		c.fail(n, key, &fault{text: "a group needs compute", accepted: `compute = "…" with one of ` + partition.List(partition.ComputeModes()) + `, or mig for NVIDIA's GPUs`})
	case compute != nil && by != nil:
		c.fail(by, dotted(key, "mig"), &fault{text: "a group has either compute, for AMD's GPUs, or mig, for NVIDIA's"})
	case device != nil && by == nil:
		c.fail(device, dotted(key, "device"), &fault{text: "goes with mig only"})
	}
	switch {
	case number != nil && gpus != nil:
		c.fail(n, key, &fault{text: "a group has either count or gpus, not both"})
	case number == nil && gpus == nil:
		c.fail(n, key, &fault{text: "a group needs to say which GPUs it takes", accepted: `count = 2, count = "rest", gpus = ["0000:0c:00.0"]`})
	case gpus != nil && !gpus.bad && len(gpus.items()) == 0:
		c.fail(gpus, dotted(key, "gpus"), &fault{text: "a group needs at least one GPU"})
	}
}

// allGroups judges the groups of a profile together.
func allGroups(c *checker, key string, n *node) {
	if len(n.items()) == 0 {
		c.fail(n, key, &fault{text: "holds no group"})
	}
	sharedRest(c, key, n.items())
}
