package config

import (
	"fmt"

	"dcm/internal/gpu/partition"
)

// kubernetes is the form in which AMD's GPU operator keeps partition profiles,
// the config.json of its device config manager. gpus is the number of GPUs of
// the node, 0 where that is not known.
func kubernetes(gpus int) rule {
	group := fixed(map[string]rule{
		"computePartition": oneOf("a compute partition mode", partition.ComputeModes()...),
		"memoryPartition":  oneOf("a memory partition mode", partition.MemoryModes()...),
		"numGPUsAssigned":  scalar("an integer", assigned),
	}, require("computePartition", "memoryPartition"))
	profile := fixed(map[string]rule{
		"skippedGPUs": fixed(map[string]rule{"ids": list(scalar("an index", skippable(gpus)), distinct)}, nil),
		"profiles":    list(group, together),
	}, func(c *checker, key string, n *node) {
		require("profiles")(c, key, n)
		if gpus > 0 && !n.broken() {
			adds(c, key, n, gpus)
		}
	})
	return fixed(map[string]rule{
		"gpu-config-profiles":      eachAlone(profile),
		"gpuClientSystemdServices": fixed(map[string]rule{"names": list(scalar("a string", unitFault), onceEach)}, nil),
	}, require("gpu-config-profiles"))
}

// eachAlone judges each profile by itself. A document is of a fleet of unlike nodes:
// what is wrong with a profile counts where that is selected.
func eachAlone(profile rule) rule {
	return rule{keys: map[string]rule{anyName: profile}, judge: func(c *checker, key string, n *node) {
		t, ok := n.table()
		if !ok {
			c.fail(n, key, wrongType("a table", n))
			return
		}
		for _, k := range t.keys() {
			own := &checker{root: c.root}
			if f := profileName(k); f != nil {
				own.fail(t[k], dotted(key, k), f)
			} else {
				profile.judge(own, dotted(key, k), t[k])
			}
			c.warnings = append(c.warnings, own.warnings...)
			if len(own.problems) > 0 {
				c.leaveOut(k, own.problems)
				delete(t, k)
			}
		}
	}}
}

// require complains of keys that are not there.
func require(keys ...string) func(c *checker, key string, n *node) {
	return func(c *checker, key string, n *node) {
		for _, k := range keys {
			if n.at(k) == nil {
				c.problems = append(c.problems, Problem{File: n.file, Line: n.line, Key: dotted(key, k), Text: "is missing"})
				n.bad = true
			}
		}
	}
}

func assigned(v int64) *fault {
	if v < 0 || v > mostGPUs {
		return &fault{text: "no number of GPUs", accepted: "an integer from 1, or 0 or no such key for all that are left"}
	}
	return nil
}

func skippable(gpus int) func(int64) *fault {
	return func(v int64) *fault {
		switch {
		case gpus > 0 && (v < 0 || v >= int64(gpus)):
			return &fault{text: fmt.Sprintf("there is no such GPU: this node has %d", gpus), accepted: fmt.Sprintf("0 to %d", gpus-1)}
		case v < 0 || v >= mostGPUs:
			return &fault{text: "no index of a GPU", accepted: "an integer from 0"}
		}
		return nil
	}
}

// distinct refuses an index given twice: the sum of GPUs would then be wrong.
func distinct(c *checker, key string, n *node) {
	first := make(map[any]*node)
	for _, item := range n.items() {
		if item.bad {
			continue
		}
		if before := first[item.value]; before != nil {
			c.fail(item, key, &fault{text: fmt.Sprintf("GPU %v is named twice, first on line %d", item.value, before.line)})
			continue
		}
		first[item.value] = item
	}
	if len(n.items()) > 0 {
		c.warn(n, "%s: these indices are taken to count the partitionable GPUs in PCI order; PCI addresses are safer", key)
	}
}

// together holds a profile to one memory mode, which is of the whole node, and to one
// entry that takes what is left.
func together(c *checker, key string, n *node) {
	if len(n.items()) == 0 {
		c.fail(n, key, &fault{text: "holds no entry"})
		return
	}
	first := n.items()[0].at("memoryPartition")
	var open *node
	for _, item := range n.items() {
		m := item.at("memoryPartition")
		if first != nil && m != nil && !m.bad && !first.bad && m.value != first.value {
			c.fail(m, dotted(key, "memoryPartition"), &fault{text: fmt.Sprintf("a profile has one memory mode, and line %d says %v", first.line, first.value)})
		}
		switch {
		case item.bad || gpusOf(item) != 0:
		case open != nil:
			c.fail(item, key, &fault{text: fmt.Sprintf("only one entry can do without numGPUsAssigned, and take what is left: one does on line %d", open.line)})
		default:
			open = item
		}
	}
}

// gpusOf is the numGPUsAssigned of an entry; 0 is what is left.
func gpusOf(entry *node) int64 {
	n := entry.at("numGPUsAssigned")
	if n == nil {
		return 0
	}
	v, ok := n.value.(int64)
	if !ok {
		return -1 // which was complained about
	}
	return v
}

// adds holds a profile to the GPUs of the node: to every one, no more and no less, if
// no entry takes what is left.
func adds(c *checker, key string, n *node, gpus int) {
	skipped, sum, open := len(n.at("skippedGPUs", "ids").items()), 0, false
	for _, item := range n.at("profiles").items() {
		v := int(gpusOf(item))
		sum += v
		open = open || v == 0
	}
	if sum+skipped > gpus || sum+skipped < gpus && !open {
		c.fail(n, key, &fault{text: fmt.Sprintf("numGPUsAssigned adds up to %d and %d are skipped: together %d, but this node has %d GPUs", sum, skipped, sum+skipped, gpus)})
	}
}
