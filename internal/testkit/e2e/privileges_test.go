package e2e_test

import (
	"strings"
	"testing"

	"dcm/internal/testkit/e2e"
)

// privileges takes one capability after the other away from each unit, and shows
// what goes wrong then: a process of another user that has a render node open is
// not seen, so that the daemon would restart the clients needlessly and the oneshot
// begin what it cannot finish. The driver reports a process with /dev/kfd open
// by itself, in the KFD's list of processes.
//
// What CAP_SYS_MODULE is for cannot be seen here, as modprobe is a stand-in; see
// the tests of the packages.
func privileges(t *testing.T, p product) {
	t.Parallel()
	m := install(t, e2e.Trixie(), p)
	// What each unit does of itself when it sees the process.
	spared := map[string]string{
		"dcm":       "grep -q training.service /run/dcm/state.json && [ ! -e /run/dcm/report.json ]",
		"dcm-apply": "grep -q training.service /run/dcm/report.json && grep -q '\"result\": \"refused\"' /run/dcm/report.json",
	}
	for unit, test := range spared {
		for _, capability := range []string{"", "CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"} {
			t.Run(strings.TrimSpace(unit+" without "+capability), func(t *testing.T) {
				m := m.in(t)
				m.ready()
				m.run("systemctl stop dcm dcm-apply; rm -f /run/dcm/*.json") // and the clients with it
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
