package nvidia

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Only a run lets the library create missing device nodes.
func TestCreateNodes(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to make device nodes")
	}
	b := newBench(t, "h100-8")
	dev := t.TempDir()
	b.turn("nodes " + dev + " 509")
	b.parts.client.args = []string{"--sys", b.Sys, "--dev", dev, "--proc", b.proc}
	if devices, err := b.node.Devices(t.Context()); err == nil && devices[0].SkipReason == "" {
		t.Errorf("without a node: %+v", devices[0])
	}
	if found, _ := filepath.Glob(filepath.Join(dev, "*")); len(found) > 0 {
		t.Errorf("reading the GPUs created the nodes %s, want none", strings.Join(found, " "))
	}
	b.parts.inventory.createNodes = true
	if d := b.gpus()[3]; d.SkipReason != "" || d.MIG == nil {
		t.Errorf("before a change: %q, %v", d.SkipReason, d.MIG)
	}
	if _, err := os.Stat(filepath.Join(dev, "nvidia3")); err != nil {
		t.Error(err)
	}
}
