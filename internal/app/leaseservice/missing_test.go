package leaseservice

import (
	"os"
	"slices"
	"testing"

	"dcm/internal/engine/host"
)

func TestMissingNodes(t *testing.T) {
	h := &host.Host{Root: t.TempDir()}
	if err := os.MkdirAll(h.Path("dev"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.Path("dev/nvidia0"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	got := MissingNodes(h, []string{"/dev/nvidia0", "/dev/nvidia-uvm", "/dev/nvidia-uvm"})
	if !slices.Equal(got, []string{"/dev/nvidia-uvm"}) {
		t.Errorf("not there are %q", got)
	}
}
