package e2e_test

import (
	"fmt"
	"strings"

	"dcm/internal/engine/runstate"
	"dcm/internal/testkit/testdeadline"
)

// refusing is an early unit. It makes the simulated driver refuse to be unloaded: the driver is
// in use, and no process holds it.
const refusing = `[Unit]
DefaultDependencies=no
After=e2e-node.service
Before=sysinit.target dcm-apply.service
[Service]
Type=oneshot
ExecStart=/usr/local/bin/dcm-sim fault --op unload --errno EBUSY --times always
`

const wants = "/etc/systemd/system/sysinit.target.wants/e2e-refuse.service"

// rebootedByItself waits for a reboot that the test does not request.
func (m machine) rebootedByItself() {
	m.t.Helper()
	ctx, cancel := testdeadline.Context(m.t.Context(), waitTimeout)
	defer cancel()
	if err := m.Rebooted(ctx); err != nil {
		m.t.Fatalf("%v\n%s", err, m.Console())
	}
}

// powerCut ends the boot without a shutdown, and waits for the next one.
func (m machine) powerCut() {
	m.t.Helper()
	m.run("systemd-run --quiet --no-block systemctl reboot --force --force")
	m.rebootedByItself()
}

func (m machine) bootID() string {
	m.t.Helper()
	return m.run("cat /proc/sys/kernel/random/boot_id")
}

// clientsAreUp expects all clients to be active.
func (m machine) clientsAreUp() {
	m.t.Helper()
	for _, unit := range []string{exporter, agentUnit, dashboard} {
		if got := m.show(unit, "ActiveState")["ActiveState"]; got != "active" {
			m.t.Errorf("%s is %s", unit, got)
		}
	}
}

func rebootOnce(m machine) {
	m.put("/etc/systemd/system/e2e-refuse.service", refusing)
	m.run("ln -s ../e2e-refuse.service " + wants + "; systemctl daemon-reload; systemctl start e2e-refuse; rm -f /var/lib/dcm/reboot.json")
	before := m.bootID()
	// Without a persistent record there could be a reboot loop.
	m.run("systemctl stop dcm; mount -t tmpfs tmpfs /var/lib/dcm")
	m.put(settings, selecting("cpx-nps4")+"[apply]\nreboot = \"once\"\n")
	if r := m.try("systemctl start dcm"); r.Code == 0 {
		m.t.Error("start of the daemon: want a failure")
	}
	m.run("systemctl start dcm; grep -q '/var/lib/dcm.*tmpfs' /run/dcm/state.json; systemctl stop dcm; umount /var/lib/dcm")
	// The container's root is an overlay. A file of an earlier boot shows that it is persistent.
	m.run("echo of another boot >/var/lib/dcm/lasts; systemctl start --no-block dcm")
	m.rebootedByItself()
	after := m.bootID()
	if after == before {
		m.t.Fatal("boot id: want another one")
	}
	// The run at boot has failed again, and the run of the daemon too.
	m.await("/run/dcm/state.json", `"phase": "failed"`)
	if s := m.state(); s.Error == nil || !strings.Contains(s.Error.Text, "amdgpu") {
		m.t.Errorf("the daemon's error: want one about amdgpu, got %+v", s.Error)
	}
	if r := m.lastRun(); r.Error == nil || !r.Error.Reboot || r.Result != runstate.RolledBack {
		m.t.Errorf("run: want rolled-back with a reboot required, got %s, %+v", r.Result, r.Error)
	}
	if r := m.try("systemctl restart dcm"); r.Code == 0 {
		m.t.Error("start of the daemon: want a failure")
	}
	if p := fmt.Sprint(m.account().Problems); !strings.Contains(p, "amdgpu") {
		m.t.Errorf("problems: want one about amdgpu, got %s", p)
	}
	// systemd restarts the failed daemon.
	if got := m.run("systemctl list-jobs --no-legend | grep -v ' dcm.service ' || :"); got != "" {
		m.t.Errorf("jobs: want none, got %s", got)
	}
	m.clientsAreUp()
	m.has(spx)
	if got := m.bootID(); got != after {
		m.t.Error("boot id: want the same")
	}
	m.run("rm " + wants + " /etc/systemd/system/e2e-refuse.service; systemctl daemon-reload; dcm-sim fault --clear; systemctl reset-failed")
	m.run("systemctl restart dcm && dcm verify && grep -q granted.*true /var/lib/dcm/reboot.json")
	m.has(cpx)
	m.clientsAreUp()
}

func reloadAtBoot(m machine) {
	m.run("rm -f /var/lib/dcm/reboot.json; echo of another boot >/var/lib/dcm/lasts")
	m.put(settings, selecting("cpx-nps4")+"[apply]\nreboot = \"once\"\nreload-driver = false\n")
	m.rebootedByItself()
	m.applied("cpx-nps4")
	m.has(cpx)
	m.clientsAreUp()
	if r := m.lastRun(); r.Result != runstate.Applied {
		m.t.Errorf("run at boot: want applied, got %s", r.Result)
	}
	// After the boot the driver is not reloaded.
	m.put(settings, selecting("spx-nps1")+"[apply]\nreload-driver = false\n")
	m.await("/run/dcm/state.json", `"phase": "failed"`, "reload-driver")
	m.has(cpx)
	m.clientsAreUp()
}
