package config

import (
	"maps"
	"slices"
)

// loadKubernetes returns the configuration of a document of the Kubernetes form.
func loadKubernetes(c *checker, file, text string, gpus int, yaml YAML) (*Config, error) {
	root := fromKubernetes(c, file, text, gpus, yaml)
	if len(c.problems) > 0 || len(c.out) > 0 && len(tables(root.at("profiles"))) == 0 {
		for _, name := range slices.Sorted(maps.Keys(c.out)) {
			c.problems = append(c.problems, c.out[name]...)
		}
		return nil, &Errors{sorted(c.problems, []layer{{file: file}})}
	}
	cfg := build(root)
	cfg.Unusable = leaveOut(c, cfg)
	return cfg, nil
}
