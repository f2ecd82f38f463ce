package runstate

import (
	"strings"
	"testing"
)

func TestHolder_LeaseWithUser(t *testing.T) {
	lease := Holder{PID: 7, Command: "python", Unit: "dcm-lease-1000-4f1c09aa.scope", Lessee: "ada"}
	err := InUse([]Holder{lease})
	if want := "python (pid 7, dcm-lease-1000-4f1c09aa.scope, a lease of ada) may open partitions"; !strings.Contains(err.Text, want) || !strings.Contains(err.Hint, "dcm lease release") {
		t.Errorf("error: got %q, hint %q", err.Text, err.Hint)
	}
	if err := InUse([]Holder{lease, {PID: 8, Command: "x", Devices: []string{"/dev/kfd"}}}); strings.Contains(err.Hint, "dcm lease release") {
		t.Errorf("with others the hint is %q", err.Hint)
	}
}

func TestInUse_HintByUnit(t *testing.T) {
	for unit, clients := range map[string]bool{"vllm.service": true, "session-3.scope": false, "": false} {
		err := InUse([]Holder{{PID: 8, Command: "x", Unit: unit, Devices: []string{"/dev/kfd"}}})
		if got := strings.Contains(err.Hint, "[clients]"); got != clients {
			t.Errorf("unit %q: got %q, want [clients] in it: %t", unit, err.Hint, clients)
		}
	}
}
