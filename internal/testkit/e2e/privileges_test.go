package e2e_test

import (
	"strings"
	"testing"

	"dcm/internal/testkit/e2e"
)

// privileges removes one capability after another from each unit and checks what fails. Without it, a unit
// does not see a process of another user that has a render node open. The daemon would then restart
// clients needlessly, and the oneshot would begin a change that it cannot complete. The driver itself
// reports processes with /dev/kfd open, in KFD's list of processes.
//
// The use of CAP_SYS_MODULE cannot be tested here, since modprobe is a stand-in. The tests of the packages
// test it.
func privileges(t *testing.T, p product) {
	t.Parallel()
	m := install(t, e2e.Trixie(), p)
	// The result of each unit if it sees the process.
	spared := map[string]string{
		"dcm":       "grep -q training.service /run/dcm/state.json && [ ! -e /run/dcm/report.json ]",
		"dcm-apply": "grep -q training.service /run/dcm/report.json && grep -q '\"result\": \"refused\"' /run/dcm/report.json",
	}
	for unit, test := range spared {
		for _, capability := range []string{"", "CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"} {
			t.Run(strings.TrimSpace(unit+" without "+capability), func(t *testing.T) {
				m := m.in(t)
				m.ready()
				m.run("systemctl stop dcm dcm-apply; rm -f /run/dcm/*.json") // this also stops the clients
				m.put("/run/systemd/system/"+unit+".service.d/less.conf", "[Service]\nCapabilityBoundingSet=~"+capability+"\n")
				if capability == "" {
					m.run("rm /run/systemd/system/" + unit + ".service.d/less.conf")
				}
				m.run("systemctl daemon-reload")
				m.put(settings, selecting("spx-fast"))
				m.run(`systemd-run --quiet --unit=training --property=User=nobody sh -c 'exec 3</dev/dri/renderD130; exec sleep infinity'`)
				m.until("ls -l /proc/$(systemctl show --property=MainPID --value training)/fd | grep -q renderD130")
				m.try("systemctl start " + unit)
				if seen := m.try(test).Code == 0; seen != (capability == "") {
					t.Errorf("holder seen before the first change: got %t\n%s", seen, m.try("cat /run/dcm/*.json").Stdout)
				}
				m.run("rm -f /run/systemd/system/" + unit + ".service.d/less.conf; systemctl daemon-reload")
			})
		}
	}
}
