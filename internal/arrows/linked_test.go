package arrows

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A root daemon that has no network links no server and no TLS: they would be most of
// its program, and each of their security updates one of dcm's.
func TestTheDaemonLinksNoNetwork(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "./cmd/dcm")
	cmd.Dir = "../.."
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	linked := strings.Fields(string(out))
	if !slices.Contains(linked, "dcm/internal/daemon") {
		t.Fatalf("dcm links %q", linked)
	}
	for _, unwanted := range []string{"net/http", "crypto/tls", "crypto/x509", "expvar"} {
		if slices.Contains(linked, unwanted) {
			t.Errorf("dcm links %s; see who with: go mod why %s", unwanted, unwanted)
		}
	}
}
