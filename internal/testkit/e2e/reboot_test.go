package e2e_test

import (
	"strings"

	"dcm/internal/engine/runstate"
	"dcm/internal/testkit/testdeadline"
)

// refusing is a unit that has the driver refuse to be unloaded, from early in each
// boot: it is in use, and no process is to blame.
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

func (m machine) bootID() string {
	m.t.Helper()
	return m.run("cat /proc/sys/kernel/random/boot_id")
}

// refused reports whether a text says that the host is not rebooted again. In a
// container ProtectKernelTunables= of systemd 252 uncovers the boot id of the
// machine below, which stays the same; to the daemon the reboot is yet to come.
func refused(text string) bool {
	return strings.Contains(text, "in vain") || strings.Contains(text, "has not happened yet")
}

// clientsAreUp checks that a failure costs no client.
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
	// On a host that forgets there would be no end of it.
	m.run("systemctl stop dcm; mount -t tmpfs tmpfs /var/lib/dcm")
	m.put(settings, selecting("cpx-nps4")+"[apply]\nreboot = \"once\"\n")
	if r := m.try("systemctl start dcm"); r.Code == 0 {
		m.t.Error("start of the daemon: want a failure")
	}
	m.run("systemctl start dcm; grep -q 'not rebooted: .*tmpfs, which does not outlive a reboot' /run/dcm/state.json; systemctl stop dcm; umount /var/lib/dcm")
	// The container's own root is an overlay, which only an earlier boot proves to be lasting.
	m.run("echo of another boot >/var/lib/dcm/lasts; systemctl start --no-block dcm")
	m.rebootedByItself()
	after := m.bootID()
	if after == before {
		m.t.Fatal("boot id: want another one")
	}
	// The boot's own run has failed again, and so has the daemon's.
	m.await("/run/dcm/state.json", `"phase": "failed"`)
	if s := m.state(); s.Error == nil || !strings.Contains(s.Error.Text, "cannot unload") || !refused(s.Error.Text) {
		m.t.Errorf("the daemon's error: want a refused second reboot, got %+v", s.Error)
	}
	if r := m.lastRun(); r.Error == nil || !r.Error.Reboot || r.Result != runstate.RolledBack {
		m.t.Errorf("run: want rolled-back with a reboot required, got %s, %+v", r.Result, r.Error)
	}
	if r := m.try("systemctl restart dcm"); r.Code == 0 {
		m.t.Error("start of the daemon: want a failure")
	}
	if text := m.try("dcm status").Stdout; !refused(text) {
		m.t.Errorf("dcm status: want the refused reboot, got:\n%s", text)
	}
	// The failed start is tried again by itself, which may be under way by now.
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
	// Later in the same boot it may not be reloaded.
	m.put(settings, selecting("spx-nps1")+"[apply]\nreload-driver = false\n")
	m.await("/run/dcm/state.json", `"phase": "failed"`, "reload-driver is false")
	m.has(cpx)
	m.clientsAreUp()
}
