package importer

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"dcm/internal/engine/config/source"
	"dcm/internal/gpu/partition"
)

// operatorFile is of the form of the file with which NVIDIA's MIG manager is deployed: a
// stream of objects, of which two ConfigMaps matter.
const operatorFile = `---
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: nvidia-mig-manager
spec:
  template:
    spec:
      volumes:
      - name: mig-parted-config
        configMap:
          name: mig-parted-config
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: gpu-clients
data:
  clients.yaml: |
    version: v1
    systemd-services:
      - nvidia-dcgm.service
      - kubelet.service
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: mig-parted-config
data:
  config.yaml: |
    version: v1
    mig-configs:
      all-1g.5gb:
        - devices: all
          mig-enabled: true
          mig-devices:
            "1g.5gb": 7

      custom:
        - device-filter: ["0x20B010DE"]
          devices: [0]
          mig-enabled: true
          mig-devices:
            "3g.20gb": 2
`

func TestImportFiles_OperatorConfigMaps(t *testing.T) {
	one, _, _ := strings.Cut(operatorFile[strings.Index(operatorFile, "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: mig"):], "\x00")
	list := "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(one), "\n", "\n  ") + "\n"
	var object map[string]any
	if err := yaml.Unmarshal([]byte(one), &object); err != nil {
		t.Fatal(err)
	}
	quoted, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	geometry, _ := partition.NewMIG(map[string]int{"3g.20gb": 2})
	want := partition.Profile{Name: "custom", Groups: []partition.Group{
		{MIG: &geometry, GPUs: []partition.Selector{{Index: 0}}, Devices: []partition.Filter{{Device: 0x20b0}}},
	}}
	for _, tt := range []struct {
		name, text string
		clients    []string
		warnings   []string
	}{
		{"a stream of objects", operatorFile, []string{"nvidia-dcgm.service"}, []string{"f:32: " + aboutIndices,
			"f:23: kubelet.service is not made a client: it has no GPU open, and a stop of it stops no process that has one open"}},
		{"one ConfigMap", one, nil, []string{"f:8: " + aboutIndices}},
		{"a list", list, nil, []string{"f:11: " + aboutIndices}},
		{"a ConfigMap in JSON", string(quoted), nil, []string{"f:1: " + aboutIndices}},
		{"a quoted document", "kind: ConfigMap\ndata:\n  config.yaml: " + source.Quote(strings.ReplaceAll(one[strings.Index(one, "    version"):], "\n    ", "\n")[4:]) + "\n",
			nil, []string{"f:3: " + aboutIndices}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, warnings := importing(t, texts("f", tt.text))
			if diff := cmp.Diff(want, c.Profiles["custom"]); diff != "" || len(c.Profiles) != 2 {
				t.Errorf("%d profiles (-want +got):\n%s", len(c.Profiles), diff)
			}
			if !slices.Equal(c.Clients, tt.clients) || !slices.Equal(warnings, tt.warnings) {
				t.Errorf("clients %q, warnings %q", c.Clients, warnings)
			}
		})
	}
	c, _ := importing(t, texts("clients.yaml", "version: v1\nsystemd-services: [dcgm-exporter]\n", "m", one))
	if !slices.Equal(c.Clients, []string{"dcgm-exporter.service"}) {
		t.Errorf("clients.yaml next to the ConfigMap: %q", c.Clients)
	}
}

func TestImportFiles_BadOperatorConfigMaps(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"a mistake in the document", strings.Replace(operatorFile, `"1g.5gb": 7`, `"1g.5gb": 70`, 1),
			`f:37: profile "all-1g.5gb" cannot be selected: mig-configs."all-1g.5gb".mig-devices."1g.5gb" = 70: not a number of instances; accepted: an integer from 1 to 64`},
		{"a document that is no YAML", strings.Replace(operatorFile, "mig-configs:\n", "mig-configs: {\n", 1), "f:33: not YAML"},
		{"an object that is no YAML", strings.Replace(operatorFile, "name: gpu-clients", "name: [", 1), "f:19: not YAML"},
		{"two configurations", operatorFile + "---\n" + operatorFile, "the files do not fit together"},
		{"a client that is no text", strings.Replace(operatorFile, "- kubelet.service", "- 7", 1), "f:23: systemd-services = 7: must be a string, not an integer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, warnings, err := ImportFiles(texts("f", tt.text), 0, nil)
			var all *source.Errors
			said := strings.Join(warnings, "\n")
			if errors.As(err, &all) {
				said = err.Error()
			}
			if !strings.Contains(said, tt.want) {
				t.Errorf("%v\n%s%s\nwant %s", err, said, out, tt.want)
			}
		})
	}
}
