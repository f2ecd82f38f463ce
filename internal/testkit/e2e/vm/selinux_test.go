package vm_test

import "strings"

// answers is the rule of dcm-security(7) that lets logins receive what the daemon answers.
const answers = "(allow initrc_t unconfined_t (dbus (send_msg)))"

// seLinux: Debian's policy has no domain for dcm, whose units run in that of services without one. Enforced, it
// denies nothing that they do, but the daemon's answers to logins. With a rule for those, changes with a reload
// of the driver, the guard, leases and a boot work.
func seLinux(m machine) {
	m.expect("cat /sys/fs/selinux/enforce", "1")
	m.expect(`tr -d '\0' </proc/$(systemctl show --property=MainPID --value dcm)/attr/current`, "system_u:system_r:initrc_t:s0")

	m.run(`systemd-run --quiet --unit=refused ` + login + `'exec dcm run -n 1 -- true'`)
	m.run(`e2e-agent await-command 'dmesg | grep -q "denied  { send_msg }.*scontext=[^ ]*:initrc_t:.*tcontext=[^ ]*:unconfined_t:.*tclass=dbus"'`)
	m.run("systemctl kill --signal=KILL refused; echo '" + answers + "' >dcm.cil && semodule --install=dcm.cil")
	m.run("dmesg --clear")

	m.put("/etc/systemd/system/holder.service", "[Service]\nExecStart=sleep infinity\n")
	m.reserveForHolder()
	m.login("systemctl daemon-reload && sed --in-place '1i profile = \"cpx-nps4\"' /etc/dcm/dcm.toml && dcm apply")
	m.expect(modes, split)
	m.expect(allClients, allActive)
	m.run("systemctl start holder")
	m.guarded()
	for _, kind := range []string{"", "--exclusive"} {
		if text := m.login("dcm run -n 1 " + kind + " -- cat /proc/self/attr/current"); !strings.Contains(text, ":unconfined_t:") {
			m.t.Errorf("a lease of a login runs as %q", text)
		}
	}
	m.denied()
	m.run("mkdir --parents /var/lib/prometheus/node-exporter")
	m.must(m.Reboot)
	m.expect("cat /sys/fs/selinux/enforce", "1")
	m.expect(modes, split)
	m.expect(allClients, allActive)
	m.login("dcm verify cpx-nps4 && grep --quiet ^dcm_ /var/lib/prometheus/node-exporter/dcm.prom")
	m.denied()
}

// login starts a program in the domain in which root's logins run.
const login = "runcon -u unconfined_u -r unconfined_r -t unconfined_t sh -c "

func (m machine) login(script string) string {
	m.t.Helper()
	return m.run(login+`"$1"`, script)
}

// denied reports what SELinux has denied, except to programs of systemd that have nothing to do with dcm.
func (m machine) denied() {
	m.t.Helper()
	m.expect(`dmesg | grep 'avc:  denied' | grep -v 'scontext=[^ ]*:\(syslogd_t\|systemd_journal_init_t\|systemd_tmpfiles_t\):' || :`, "")
}
