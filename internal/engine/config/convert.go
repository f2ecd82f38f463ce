package config

// readKubernetes is the form of /etc/dcm/config.json.
func readKubernetes(c *checker, l layer) *node { return fromKubernetes(c, l.file, l.text, 0, nil) }

// fromKubernetes reads the Kubernetes form and returns it as a document of our own,
// whose values stand where they stood.
func fromKubernetes(c *checker, file, text string, gpus int, yaml YAML) *node {
	root, broken := readDocument(file, text, yaml)
	if broken != nil {
		c.problems = append(c.problems, *broken)
		return nil
	}
	c.root = rule{} // hints at the right [table] are for TOML
	kubernetes(gpus).judge(c, "", root)
	return convert(root)
}

func convert(root *node) *node {
	profiles := make(table)
	for name, n := range tables(root.at("gpu-config-profiles")) {
		profiles[name] = convertProfile(n)
	}
	sum := table{"profiles": derived(root, profiles)}
	if units := root.at("gpuClientSystemdServices", "names"); units != nil {
		sum["clients"] = derived(units, table{"units": units})
	}
	return derived(root, sum)
}

// convertProfile makes a profile of the whole node of one that assigns every GPU
// to one group, and groups otherwise.
func convertProfile(n *node) *node {
	entries, skipped := n.at("profiles").items(), n.at("skippedGPUs", "ids")
	t := table{"memory": entries[0].at("memoryPartition")}
	if len(entries) == 1 && len(skipped.items()) == 0 {
		t["compute"] = entries[0].at("computePartition")
		return derived(n, t)
	}
	if len(skipped.items()) > 0 {
		t["skip"] = skipped
	}
	var groups []*node
	for _, e := range entries {
		count := e.at("numGPUsAssigned")
		if gpusOf(e) == 0 {
			count = derived(e, rest)
		}
		groups = append(groups, derived(e, table{"compute": e.at("computePartition"), "count": count}))
	}
	t["group"] = derived(n.at("profiles"), groups)
	return derived(n, t)
}
