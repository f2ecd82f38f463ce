package cdi

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

func TestReadNames(t *testing.T) {
	dir := t.TempDir()
	for file, text := range map[string]string{
		"nvidia.yaml": "---\ncdiVersion: 0.5.0\ncontainerEdits:\n  env:\n  - NVIDIA_VISIBLE_DEVICES=void\nkind: nvidia.com/gpu\ndevices:\n- name: \"0:1\"\n  containerEdits: {}\n- name: MIG-5b1a\n- name: all\n",
		"other.json":  `{"cdiVersion": "0.5.0", "kind": "vendor.com/net", "devices": [{"name": "a"}, {"name": "no space"}]}`,
		"broken.json": `{"kind": "vendor.com/net", "devices": [`,
		"broken.yaml": "kind: [\n",
		"notes.txt":   `{"kind": "vendor.com/net", "devices": [{"name": "b"}]}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := Write(dir, []Device{{Name: "all", Nodes: []string{"/dev/kfd"}}}); err != nil {
		t.Fatal(err)
	}
	got := ReadNames([]string{filepath.Join(dir, "missing"), dir}, yaml.Unmarshal)
	want := []string{"deviceconfig.org/partition=all", "nvidia.com/gpu=0:1", "nvidia.com/gpu=MIG-5b1a", "nvidia.com/gpu=all", "vendor.com/net=a"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(got))); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if files := got["nvidia.com/gpu=all"]; len(files) != 1 || filepath.Base(files[0]) != "nvidia.yaml" {
		t.Errorf("files of a name: got %q", files)
	}
}
