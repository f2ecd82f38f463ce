package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
)

func TestListClients(t *testing.T) {
	shipped, err := os.ReadFile("../../../../packaging/dcm.toml")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "dcm.toml")
	if err := os.WriteFile(path, shipped, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("sh", "-c", listClients+" "+path).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var got struct{ Clients struct{ Units []string } }
	if _, err := toml.DecodeFile(path, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"amd-metrics-exporter", "gpuagent"}, got.Clients.Units); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
