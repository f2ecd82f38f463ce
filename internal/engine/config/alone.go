package config

import (
	"maps"
	"slices"

	"dcm/internal/engine/config/kubernetes"
	"dcm/internal/engine/config/rule"
	"dcm/internal/engine/config/source"
)

// LoadKubernetes returns the configuration of a document of the Kubernetes form.
func LoadKubernetes(c *rule.Checker, file, text string, gpus int, yaml source.YAML) (*Config, error) {
	root := kubernetes.Read(c, file, text, gpus, yaml)
	if len(c.Problems) > 0 || len(c.LeftOut) > 0 && len(source.Children(root.At("profiles"))) == 0 {
		for _, name := range slices.Sorted(maps.Keys(c.LeftOut)) {
			c.Problems = append(c.Problems, c.LeftOut[name]...)
		}
		return nil, source.NewErrors(source.Sort(c.Problems, file)...)
	}
	cfg := build(root)
	cfg.Unusable = LeaveOut(c, cfg)
	return cfg, nil
}
