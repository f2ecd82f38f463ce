// Package rendered has manifests as kustomize makes them, by kustomize's own library. It
// is for tests: nothing of it is linked into the agent.
package rendered

import (
	"encoding/json"
	"fmt"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// Object is one, as JSON has it.
type Object = map[string]any

// Objects are those of a directory with a kustomization, in the order in which they are
// to be made.
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
