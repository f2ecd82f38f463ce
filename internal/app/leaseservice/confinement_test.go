package leaseservice

import (
	"os"
	"strings"
	"testing"
)

// TestConfinement compares the sandbox of the transient services with that of dcm-gate.service.
func TestConfinement(t *testing.T) {
	unit, err := os.ReadFile("../../../systemd/dcm-gate.service")
	if err != nil {
		t.Fatal(err)
	}
	_, sandbox, _ := strings.Cut(string(unit), "CapabilityBoundingSet=")
	has := make(map[string]bool)
	for _, p := range confinement() {
		has[p.Name] = true
	}
	for line := range strings.Lines("CapabilityBoundingSet=" + sandbox) {
		name, _, setting := strings.Cut(line, "=")
		if !setting || name == "ReadWritePaths" || name == "PrivateDevices" { // terminals are devices
			continue
		}
		if !has[name] {
			t.Errorf("%s= of dcm-gate.service is not set", name)
		}
	}
}
