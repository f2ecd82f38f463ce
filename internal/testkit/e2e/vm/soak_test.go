package vm_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"dcm/internal/testkit/e2e/vm"
	"dcm/internal/testkit/e2e/vm/testnode"
)

// TestSoak kills dcm's processes and cuts the power at random moments of changes, in one machine. DCM_VM_SOAK
// is the duration, DCM_VM the guest.
func TestSoak(t *testing.T) {
	text := os.Getenv("DCM_VM_SOAK")
	if text == "" {
		t.Skip("the soak test runs with DCM_VM_SOAK=10m, which make soak-vm sets")
	}
	duration, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := vm.Missing(); err != nil {
		t.Fatal(err)
	}
	guest, ok := vm.Guests()[os.Getenv("DCM_VM")]
	if !ok {
		t.Fatalf("DCM_VM names %q, which is no guest", os.Getenv("DCM_VM"))
	}
	p, err := testnode.Product(t.Context(), "../../../..", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	m := restore(t, openDisk(t, guest, p), twoGPUs)
	m.run(`printf '%s' "$1" >>/etc/dcm/dcm.toml`, powerCutProfiles)
	m.use("split")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	trials := make(map[string]int)
	for end := time.Now().Add(duration); time.Now().Before(end) && !t.Failed(); {
		trials[m.trial(random)]++
	}
	t.Logf("trials: %v", trials)
}

// trial disturbs one change, checks the result, and returns the kind of disturbance.
func (m machine) trial(random *rand.Rand) string {
	m.t.Helper()
	kinds := []struct{ name, command string }{
		{"power cut", ""},
		{"daemon killed", "systemctl kill --signal=KILL --kill-whom=main dcm"},
		{"run killed", "systemctl kill --signal=KILL --kill-whom=main dcm-apply || :"},
		{"systemd re-executed", "systemctl daemon-reexec"},
	}
	kind := kinds[random.IntN(len(kinds))]
	other := map[string]string{"quarters": "split", "split": "quarters"}[m.selected()]
	delay := fmt.Sprintf("%d.%02d", random.IntN(3), random.IntN(100))
	m.t.Logf("%s %s s after the selection of %s", kind.name, delay, other)
	// The moment is random, so the test waits for no event.
	m.run(`sync; systemctl reset-failed; systemd-run --quiet --collect --unit=change dcm use "$1"; sleep "$2"; `+kind.command, other, delay)
	if kind.command == "" {
		m.must(m.PowerCut)
		m.must(m.PowerOn)
	}
	selected := m.selected()
	// On a busy host, dcm does not wait until the restarted daemon answers.
	m.run(`e2e-agent await-command 'dcm use "$1"' "$1"`, selected)
	m.expect(modes, powerCutModes()[selected])
	m.expect(allClients, allActive)
	m.expect("systemctl --failed --quiet --plain --no-legend", "")
	m.run("dcm verify " + selected)
	m.expect("journalctl --boot --output=cat --unit='dcm*' | grep -cE '^panic:|^goroutine ' || :", "0")
	return kind.name
}
