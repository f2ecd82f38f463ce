package importrules

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A root daemon that has no network links no server and no TLS: they would be most of
// its program, and each of their security updates one of dcm's.
func TestDaemonLinksNoNetwork(t *testing.T) {
	network := []string{"net/http", "crypto/tls", "crypto/x509", "expvar"}
	linksNot(t, "./cmd/dcm", network...)
	// What only people ask for is memory that the daemon has no use of.
	linksNot(t, "./cmd/dcm-service", append(network, "dcm/internal/app/cli", "github.com/spf13/cobra", "text/template", "archive/tar", "compress/gzip", "encoding/csv")...)
}

// linksNot wants none of the packages linked into a program that holds the daemon.
func linksNot(t *testing.T, program string, unwanted ...string) {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", program)
	cmd.Dir = "../../.."
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	linked := strings.Fields(string(out))
	if !slices.Contains(linked, "dcm/internal/engine/daemon") {
		t.Fatalf("%s links %q", program, linked)
	}
	for _, pkg := range unwanted {
		if slices.Contains(linked, pkg) {
			t.Errorf("%s links %s; see who with: go mod why %s", program, pkg, pkg)
		}
	}
}
