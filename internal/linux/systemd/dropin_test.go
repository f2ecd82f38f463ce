package systemd

import (
	"strings"
	"testing"
)

func TestDropins_AfterApplyOnly(t *testing.T) {
	got := Order{Clients: []string{"a.service", "k3s.service"}, OrderedAfter: []string{"kubelet.service", "k3s.service"}}.Dropins()
	if text := got["kubelet.service.d/50-dcm.conf"]; !strings.Contains(text, "\nAfter=dcm-apply.service\n") || strings.Contains(text, "PartOf") || strings.Contains(text, "Requires") {
		t.Errorf("drop-in of kubelet.service:\n%s", text)
	}
	if text := got["k3s.service.d/50-dcm.conf"]; text != got["a.service.d/50-dcm.conf"] {
		t.Errorf("drop-in of a client:\n%s", text)
	}
}
