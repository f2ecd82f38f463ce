// Package rendered renders manifests with the library of kustomize. It is for tests only and is
// not linked into the agent.
package rendered

import (
	"encoding/json"
	"fmt"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// Object is a manifest in the form that encoding/json returns.
type Object = map[string]any

// Objects returns the objects of a directory with a kustomization, in the order in which they must
// be created.
func Objects(dir string) ([]Object, error) {
	all, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, fmt.Errorf("cannot render %s: %w", dir, err)
	}
	var out []Object
	for _, r := range all.Resources() {
		text, err := r.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("cannot render %s: %w", dir, err)
		}
		var o Object
		if err := json.Unmarshal(text, &o); err != nil {
			return nil, fmt.Errorf("cannot render %s: %w", dir, err)
		}
		out = append(out, o)
	}
	return out, nil
}
