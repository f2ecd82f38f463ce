package importer

import (
	"strings"

	"dcm/internal/engine/config"
)

// loadText returns the configuration of the text of a dcm.toml.
func loadText(name, text string) (*config.Config, error) {
	p, err := config.DefaultPaths("/nonexistent").WithAdminText(name, strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	return config.Load(p)
}

// loadKubernetes returns the configuration of a document of the Kubernetes form as a layer.
func loadKubernetes(text string) (*config.Config, error) {
	p := config.DefaultPaths("/nonexistent")
	return config.Load(p.With(p.Kubernetes, text))
}
