package importer

import (
	"strings"
	"testing"

	"dcm/internal/engine/config/configtest"
	"dcm/internal/engine/config/source"
)

func FuzzImport(f *testing.F) {
	f.Add(configtest.Operators, 8)
	f.Add(mixed, 8)
	f.Add(mixed, 0)
	f.Add(configtest.Fleet, 0)
	f.Add(configtest.Fleet, 8)
	f.Add(mapHead+"  config.json: |\n"+indented(configtest.Operators), 8)
	f.Add(`{"kind": "ConfigMap", "data": {"config.json": `+source.Quote(configtest.Operators)+`}}`, 0)
	f.Add("{\"gpu-config-profiles\": {},\n\"gpuClientSystemdServices\": {\"names\": [\"../x\",\nnull]}}", 4)
	f.Fuzz(func(t *testing.T, text string, gpus int) {
		out, _, err := Import("f", []byte(text), gpus)
		if err != nil {
			configtest.Placed(t, text, err)
			return
		}
		c, err := loadText("out", out)
		if err != nil {
			t.Fatalf("%v\nin what was imported:\n%s", err, out)
		}
		direct, err := loadKubernetes(text)
		if err != nil && strings.Contains(err.Error(), ": not JSON;") {
			return // YAML is for import alone
		}
		if err != nil {
			t.Fatalf("imported, but not read as a layer: %v", err)
		}
		for name := range direct.Profiles {
			if _, ok := c.Profiles[name]; !ok && gpus > 0 {
				delete(direct.Profiles, name) // not for a node of so many GPUs
			}
		}
		direct.Unusable = nil
		if diff := configtest.Diff(direct, c); diff != "" {
			t.Errorf("as a layer and imported (-want +got):\n%s", diff)
		}
	})
}
