package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dcm/internal/atload"
	"dcm/internal/partition"
	"dcm/internal/report"
)

const options = "/etc/modprobe.d/dcm.conf"

// atLoadText is the file as a run writes it.
func atLoadText(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "dcm.conf")
	if _, err := atload.Set(file, partition.CPX); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The boot's run finds nothing to do, since the driver came up as it shall.
func comesUpInTheMode(m machine) {
	const atLoad = "[apply]\nat-load = true\n"
	m.put(settings, selecting("spx-fast")+atLoad)
	m.applied("spx-fast")
	m.put(settings, selecting("cpx-fast")+atLoad)
	m.applied("cpx-fast")
	if text := m.run("cat " + options); !strings.HasSuffix(text, "options amdgpu user_partt_mode=4") {
		m.t.Errorf("%s reads:\n%s", options, text)
	}
	m.reboot()
	m.run("dcm verify")
	m.has(partition.Mode{Compute: partition.CPX, Memory: partition.NPS1})
	if r := m.lastRun(); r.Result != report.Unchanged || r.Profile != "cpx-fast" {
		m.t.Errorf("the boot's run ended %s for %s", r.Result, r.Profile)
	}
	m.clientsAreUp()
	// Without the key the next run removes the file, before it changes anything.
	m.put(settings, selecting("spx-fast"))
	m.applied("spx-fast")
	m.run("[ ! -e " + options + " ]")
}
