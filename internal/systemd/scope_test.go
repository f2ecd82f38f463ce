package systemd

import (
	"strings"
	"testing"
)

// A container engine makes the nodes in the container anew (mknod), in a lease as in a
// service with a reservation.
func TestWhoHasAPartitionMayMakeItsNode(t *testing.T) {
	for _, p := range (Scope{Name: "a.scope", Allow: []string{"/dev/kfd", "/dev/dri/renderD129"}}).properties() {
		if p.Name != "DeviceAllow" {
			continue
		}
		for _, allow := range p.Value.Value().([]permission) {
			if allow.Access != "rwm" {
				t.Errorf("a lease has %s %s", allow.Path, allow.Access)
			}
		}
	}
	o := Order{Reserved: []Reserved{{Unit: "a.service", Name: "a", Count: 1, Beside: 1}}}
	for line := range strings.Lines(o.Dropins()["a.service.d/50-dcm.conf"]) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "DeviceAllow=/") && !strings.HasSuffix(line, " rwm") {
			t.Errorf("a reservation has %s", line)
		}
	}
}
