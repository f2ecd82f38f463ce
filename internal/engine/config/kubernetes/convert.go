package kubernetes

import (
	"dcm/internal/engine/config/rule"
	"dcm/internal/engine/config/source"
)

// Read parses the Kubernetes form and returns it as a document of dcm.toml. Values keep their places.
func Read(c *rule.Checker, file, text string, gpus int, yaml source.YAML) *source.Node {
	root, broken := readDocument(file, text, yaml)
	if broken != nil {
		c.Problems = append(c.Problems, *broken)
		return nil
	}
	c.Root = rule.Rule{} // hints about tables are for TOML only
	schema(gpus).Check(c, "", root)
	return convert(root)
}

func convert(root *source.Node) *source.Node {
	profiles := make(source.Table)
	for name, n := range source.Children(root.At("gpu-config-profiles")) {
		profiles[name] = convertProfile(n)
	}
	sum := source.Table{"profiles": source.Derive(root, profiles)}
	if units := root.At("gpuClientSystemdServices", "names"); units != nil {
		sum["clients"] = source.Derive(units, source.Table{"units": units})
	}
	return source.Derive(root, sum)
}

// convertProfile returns a profile for the whole node if one entry has all GPUs, and a profile with
// groups otherwise.
func convertProfile(n *source.Node) *source.Node {
	entries, skipped := n.At("profiles").Items(), n.At("skippedGPUs", "ids")
	t := source.Table{"memory": entries[0].At("memoryPartition")}
	if len(entries) == 1 && len(skipped.Items()) == 0 {
		t["compute"] = entries[0].At("computePartition")
		return source.Derive(n, t)
	}
	if len(skipped.Items()) > 0 {
		t["skip"] = skipped
	}
	var groups []*source.Node
	for _, e := range entries {
		count := e.At("numGPUsAssigned")
		if gpusOf(e) == 0 {
			count = source.Derive(e, rule.Rest)
		}
		groups = append(groups, source.Derive(e, source.Table{"compute": e.At("computePartition"), "count": count}))
	}
	t["group"] = source.Derive(n.At("profiles"), groups)
	return source.Derive(n, t)
}
