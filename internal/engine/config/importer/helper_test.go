package importer

import (
	"strings"

	"github.com/google/go-cmp/cmp"

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

// same compares configurations without the places where they are defined.
func same(a, b *config.Config) string {
	x, y := *a, *b
	x.Source, x.LastingSource, x.Origin, x.Warnings = "", "", nil, nil
	y.Source, y.LastingSource, y.Origin, y.Warnings = "", "", nil, nil
	return cmp.Diff(x, y, cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "Reservations.Source" }, cmp.Ignore()))
}
