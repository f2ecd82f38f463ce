package kubernetes

import (
	"fmt"

	"dcm/internal/engine/config/rule"
	"dcm/internal/engine/config/source"
	"dcm/internal/gpu/partition"
)

// schema is the rule of the config.json of the device config manager of AMD's GPU operator. gpus is the
// number of GPUs of the node; 0 if unknown.
func schema(gpus int) rule.Rule {
	group := rule.Table(map[string]rule.Rule{
		"computePartition": rule.OneOf("a compute partition mode", partition.ComputeModes()...),
		"memoryPartition":  rule.OneOf("a memory partition mode", partition.MemoryModes()...),
		"numGPUsAssigned":  rule.Scalar("an integer", assigned),
	}, rule.Require("computePartition", "memoryPartition"))
	profile := rule.Table(map[string]rule.Rule{
		"skippedGPUs": rule.Table(map[string]rule.Rule{"ids": rule.List(rule.Scalar("an index", skippable(gpus)), distinct)}, nil),
		"profiles":    rule.List(group, together),
	}, func(c *rule.Checker, key string, n *source.Node) {
		rule.Require("profiles")(c, key, n)
		if gpus > 0 && !n.Broken() {
			adds(c, key, n, gpus)
		}
	})
	return rule.Table(map[string]rule.Rule{
		"gpu-config-profiles":      rule.IndependentTables(profile),
		"gpuClientSystemdServices": rule.Table(map[string]rule.Rule{"names": rule.List(rule.Scalar("a string", rule.Unit), rule.WarnRepeatedUnits)}, nil),
	}, rule.Require("gpu-config-profiles"))
}

func assigned(v int64) *source.Fault {
	if v < 0 || v > rule.MaxGPUs {
		return &source.Fault{Text: "not a number of GPUs", Accepted: "an integer from 1; 0 or no key for all remaining GPUs"}
	}
	return nil
}

func skippable(gpus int) func(int64) *source.Fault {
	return func(v int64) *source.Fault {
		switch {
		case gpus > 0 && (v < 0 || v >= int64(gpus)):
			return &source.Fault{Text: fmt.Sprintf("no such GPU: this node has %d", gpus), Accepted: fmt.Sprintf("0 to %d", gpus-1)}
		case v < 0 || v >= rule.MaxGPUs:
			return &source.Fault{Text: "not a GPU index", Accepted: "an integer from 0"}
		}
		return nil
	}
}

// distinct reports repeated indices, with which the sum of GPUs would be wrong.
func distinct(c *rule.Checker, key string, n *source.Node) {
	first := make(map[any]*source.Node)
	for _, item := range n.Items() {
		if item.Bad {
			continue
		}
		if before := first[item.Value]; before != nil {
			c.Fail(item, key, &source.Fault{Text: fmt.Sprintf("GPU %v is listed twice, first on line %d", item.Value, before.Line), Accepted: "each GPU once"})
			continue
		}
		first[item.Value] = item
	}
	if len(n.Items()) > 0 {
		c.Warn(n, "%s: indices are read as positions among the partitionable GPUs in PCI order; PCI addresses are safer", key)
	}
}

// together checks that the entries of a profile have the same memory mode, and that at most one entry
// takes the remaining GPUs.
func together(c *rule.Checker, key string, n *source.Node) {
	if len(n.Items()) == 0 {
		c.Fail(n, key, &source.Fault{Text: "the list is empty"})
		return
	}
	first := n.Items()[0].At("memoryPartition")
	var open *source.Node
	for _, item := range n.Items() {
		m := item.At("memoryPartition")
		if first != nil && m != nil && !m.Bad && !first.Bad && m.Value != first.Value {
			c.Fail(m, source.DottedKey(key, "memoryPartition"), &source.Fault{Text: fmt.Sprintf("a profile has one memory mode (found another one on line %d: %v)", first.Line, first.Value)})
		}
		switch {
		case item.Bad || gpusOf(item) != 0:
		case open != nil:
			c.Fail(item, key, &source.Fault{Text: fmt.Sprintf("the remaining GPUs are already taken by the entry without numGPUsAssigned on line %d", open.Line)})
		default:
			open = item
		}
	}
}

// gpusOf returns the numGPUsAssigned of an entry; 0 for the remaining GPUs, -1 for a bad value.
func gpusOf(entry *source.Node) int64 {
	n := entry.At("numGPUsAssigned")
	if n == nil {
		return 0
	}
	v, ok := n.Value.(int64)
	if !ok {
		return -1
	}
	return v
}

// adds checks that a profile has not more GPUs than the node, and all of them unless an entry takes the
// remaining ones.
func adds(c *rule.Checker, key string, n *source.Node, gpus int) {
	skipped, sum, open := len(n.At("skippedGPUs", "ids").Items()), 0, false
	for _, item := range n.At("profiles").Items() {
		v := int(gpusOf(item))
		sum += v
		open = open || v == 0
	}
	if sum+skipped > gpus || sum+skipped < gpus && !open {
		c.Fail(n, key, &source.Fault{Text: fmt.Sprintf("GPUs do not add up (found %d assigned and %d skipped, together %d, want %d)", sum, skipped, sum+skipped, gpus)})
	}
}
