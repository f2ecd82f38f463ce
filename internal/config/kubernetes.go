package config

import (
	"fmt"

	"dcm/internal/partition"
)

// kubernetes is the form in which AMD's GPU operator keeps partition profiles,
// the config.json of its device config manager. gpus is the number of GPUs of
// the node, 0 where that is not known.
func kubernetes(gpus int) rule {
	group := fixed(map[string]rule{
		"computePartition": oneOf("a compute partition mode", partition.ComputeModes()...),
		"memoryPartition":  oneOf("a memory partition mode", partition.MemoryModes()...),
		"numGPUsAssigned":  scalar("an integer", assigned),
	}, require("computePartition", "memoryPartition", "numGPUsAssigned"))
	profile := fixed(map[string]rule{
		"skippedGPUs": fixed(map[string]rule{"ids": list(scalar("an index", skippable(gpus)), distinct)}, nil),
		"profiles":    list(group, oneMemory),
	}, func(c *checker, key string, n *node) {
		require("profiles")(c, key, n)
		if gpus > 0 && !n.broken() {
			adds(c, key, n, gpus)
		}
	})
	return fixed(map[string]rule{
		"gpu-config-profiles":      named(profileName, profile),
		"gpuClientSystemdServices": fixed(map[string]rule{"names": list(scalar("a string", unitFault), onceEach)}, nil),
	}, require("gpu-config-profiles"))
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
	if v < 1 || v > mostGPUs {
		return &fault{text: "no number of GPUs", accepted: "an integer from 1"}
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

// oneMemory holds a profile to one memory mode, which is of the whole node.
func oneMemory(c *checker, key string, n *node) {
	if len(n.items()) == 0 {
		c.fail(n, key, &fault{text: "holds no entry"})
		return
	}
	first := n.items()[0].at("memoryPartition")
	for _, item := range n.items() {
		m := item.at("memoryPartition")
		if first != nil && m != nil && !m.bad && !first.bad && m.value != first.value {
			c.fail(m, dotted(key, "memoryPartition"), &fault{text: fmt.Sprintf("a profile has one memory mode, and line %d says %v", first.line, first.value)})
		}
	}
}

// adds holds a profile to every GPU of the node, no more and no less.
func adds(c *checker, key string, n *node, gpus int) {
	skipped, sum := len(n.at("skippedGPUs", "ids").items()), 0
	for _, item := range n.at("profiles").items() {
		sum += int(item.at("numGPUsAssigned").value.(int64))
	}
	if sum+skipped != gpus {
		c.fail(n, key, &fault{text: fmt.Sprintf("numGPUsAssigned adds up to %d and %d are skipped: together %d, but this node has %d GPUs", sum, skipped, sum+skipped, gpus)})
	}
}
