package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/modprobe"
	"dcm/internal/gpu/partition"
)

const options = "/etc/modprobe.d/dcm.conf"

// atLoadText is the content of the file that a run writes.
func atLoadText(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "dcm.conf")
	if _, err := modprobe.Set(file, partition.CPX); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The run at boot has nothing to change, since the driver sets the wanted mode when it is loaded.
func comesUpInTheMode(m machine) {
	const atLoad = "[apply]\nat-load = true\n"
	m.put(settings, selecting("spx-fast")+atLoad)
	m.applied("spx-fast")
	m.put(settings, selecting("cpx-fast")+atLoad)
	m.applied("cpx-fast")
	if text := m.run("cat " + options); !strings.HasSuffix(text, "options amdgpu user_partt_mode=4") {
		m.t.Errorf("content of %s:\n%s", options, text)
	}
	// By default systemd starts these before basic.target, and so before the oneshot.
	m.put("/etc/systemd/system/early.socket", "[Socket]\nListenStream=/run/early\nAccept=yes\n[Install]\nWantedBy=sockets.target\n")
	m.put("/etc/systemd/system/early@.service", "[Service]\nExecStart=true\n")
	m.put("/etc/systemd/system/early.path", "[Path]\nPathExists=/nowhere\nUnit=early@1.service\n[Install]\nWantedBy=paths.target\n")
	m.run("systemctl enable early.socket early.path")
	m.put(settings, strings.Replace(selecting("cpx-fast"), `"not-there"`, `"early.socket", "early.path"`, 1)+atLoad)
	m.applied("cpx-fast")
	m.reboot()
	m.run("dcm verify; systemctl is-active early.socket early.path sockets.target paths.target")
	if text := m.run("journalctl --boot --output=cat _PID=1 | grep 'ordering cycle' || :"); text != "" {
		m.t.Errorf("ordering cycle: %s", text)
	}
	if early, done := m.monotonic("early.socket", "ActiveEnterTimestampMonotonic"), m.monotonic("dcm-apply.service", "ExecMainExitTimestampMonotonic"); early < done {
		m.t.Errorf("the client socket listened at %d µs, before the end of the run at %d µs", early, done)
	}
	m.has(partition.Mode{Compute: partition.CPX, Memory: partition.NPS1})
	if r := m.lastRun(); r.Result != runstate.Unchanged || r.Profile != "cpx-fast" {
		m.t.Errorf("run at boot: got %s for %s", r.Result, r.Profile)
	}
	m.clientsAreUp()
	// Without the key the next run removes the file, before it changes anything.
	m.put(settings, selecting("spx-fast"))
	m.applied("spx-fast")
	m.run("[ ! -e " + options + " ]; systemctl disable --now early.socket early.path; rm /etc/systemd/system/early*")
}
