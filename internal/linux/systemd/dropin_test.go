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

// With require = true the clients have an assertion each if changes concern single GPUs. The drop-in of an
// instance replaces that of its template, so it has both.
func TestDropins_RequirePerGPU(t *testing.T) {
	const (
		client   = "[Unit]|After=dcm-apply.service|PartOf=dcm-apply.service|After=dcm-change.service|Requires=dcm-apply.service"
		withheld = "|AssertPathExists=!/run/dcm/withheld/"
	)
	o := Order{Clients: []string{`a\x2db.service`, "w@.service"}, Require: true, PerGPU: true, Reserved: []Reserved{{Unit: "w@3.service", Name: "w-3", Count: 1}}}
	got := o.Dropins()
	for file, want := range map[string]string{
		`a\x2db.service.d/50-dcm.conf`: client + withheld + `a\x2db.service`,
		"w@.service.d/50-dcm.conf":     client + withheld + "w@.service",
		"w@3.service.d/50-dcm.conf":    client + withheld + "w@3.service|After=dcm-reserve.service",
	} {
		if text := directives(got[file]); !strings.HasPrefix(text, want) {
			t.Errorf("%s: %q, want %q…", file, text, want)
		}
	}
	o.PerGPU = false
	for file, text := range o.Dropins() {
		if strings.Contains(text, "withheld") || !strings.Contains(text, "\nRequires=dcm-apply.service\n") {
			t.Errorf("%s without changes of single GPUs:\n%s", file, text)
		}
	}
}
