package e2e_test

import (
	"strconv"
	"strings"
)

// callersIdentified: a process counts for the user that it runs as. It is not moved with the
// privileges of another user, and no other process is killed instead of it.
func callersIdentified(m machine) {
	uid := strings.TrimSpace(m.run("id -u ada"))
	// dbus-daemon accepts no uid without a user name.
	m.run("useradd --uid 100005 --no-create-home subada")
	m.countedForAda()
	m.run("userdel subada")

	m.run(`cp $(command -v sleep) /usr/local/bin/gained-sleep; chmod 4755 /usr/local/bin/gained-sleep
		rm -f /run/roots; setsid dcm run -n 58 -- sh -c 'echo held >/run/roots; exec sleep infinity' >/dev/null 2>&1 </dev/null &`)
	m.await("/run/roots", "held")
	r := m.try(`setsid ` + ada + `e2e-agent attack become 58 /usr/local/bin/gained-sleep infinity >/run/become 2>&1 </dev/null & pid=$!
		timeout 60 e2e-agent await-command 'grep -q gained-sleep /proc/$1/comm' $pid || { cat /run/become; exit 1; }
		dcm queue | grep -q "58 partitions" || exit 3
		systemctl stop 'dcm-lease-*.scope'
		timeout 60 e2e-agent await-command '! dcm queue | grep -q "58 partitions"' || exit 2
		cat /proc/$pid/cgroup; kill $pid`)
	if r.Code != 0 || strings.Contains(r.Stdout, "dcm.slice") {
		m.t.Errorf("process that waits and executes a set-uid program: want no lease, got %d, %s%s", r.Code, r.Stdout, r.Stderr)
	}
	// systemd moves a process back into a unit only if the unit is delegated. Otherwise dcm
	// moves it to a scope in the same slice.
	for _, delegate := range []string{"no", "yes"} {
		r = m.try("systemd-run --quiet --pipe --wait --collect --slice=victims.slice --property=Delegate=" + delegate + " unshare --mount sh -c 'mount -o remount,rw,bind /proc/sys 2>/dev/null; exec e2e-agent attack reuse " + uid + " $(id -g ada) $(getent group dcm | cut -d: -f3) 40'")
		if r.Code != 0 {
			m.t.Errorf("reused PIDs, Delegate=%s: want success, got %d, %s%s", delegate, r.Code, r.Stdout, r.Stderr)
		}
		m.t.Logf("reused PIDs, Delegate=%s: %s", delegate, strings.TrimSpace(r.Stdout))
	}
	m.until(noLeases)
}

// countedForAda: a lease of a process whose uid is one of subuid(5) counts for the user who
// created its user namespace.
func (m machine) countedForAda() {
	m.t.Helper()
	r := m.try(`gid=$(getent group dcm | cut -d: -f3)
		setsid ` + ada + `unshare --user sleep infinity >/dev/null 2>&1 </dev/null & pid=$!
		e2e-agent await-command 'grep -q sleep /proc/$1/comm' $pid
		printf '0 100000 100\n' >/proc/$pid/uid_map && printf '0 100000 100\n200 %d 1\n' $gid >/proc/$pid/gid_map
		nsenter --user --target $pid --setuid 5 --setgid 200 dcm run -- cat /proc/self/cgroup; code=$?
		kill $pid; exit $code`)
	if want := "/dcm.slice/dcm-lease-" + strings.TrimSpace(m.run("id -u ada")) + "-"; r.Code != 0 || !strings.Contains(r.Stdout, want) {
		m.t.Errorf("lease in a user namespace of ada: exit status %d, cgroup %s%s, want %s", r.Code, r.Stdout, r.Stderr, want)
	}
	m.until(noLeases)
}

// commandsHidden: the unit of a lease shows the name of its program and no arguments, and the
// name cannot change the unit.
func commandsHidden(m machine) {
	m.run(`rm -f /run/roots; ln -sf "$(command -v sh)" "$(printf '/usr/local/bin/odd\343\205\244\\')"
		setsid dcm run -- "$(printf 'odd\343\205\244\\')" -c 'echo held >/run/roots; exec sleep infinity' secret '\' >/dev/null 2>&1 </dev/null &`)
	m.await("/run/roots", "held")
	unit := strings.TrimSpace(m.run("systemctl list-units --plain --no-legend 'dcm-lease-*.scope' | cut -d' ' -f1"))
	m.run("systemctl daemon-reload")
	file := m.run("cat /run/systemd/transient/" + unit)
	shown := m.run("systemctl list-units --all --no-pager; systemctl show " + unit + "; journalctl --boot --no-pager --output=cat")
	if strings.Contains(file+shown, "secret") || strings.Contains(file, "\u3164") {
		m.t.Errorf("unit of a lease: want no argument, got\n%s", file)
	}
	for _, line := range strings.Split(file, "\n") {
		if strings.HasSuffix(line, "\\") {
			m.t.Errorf("unit of a lease: want no continued line, got:\n%s", file)
		}
	}
	got := m.show(unit, "Description", "Slice", "DevicePolicy", "CollectMode")
	if !strings.HasPrefix(got["Description"], "Lease of 0000:") || !strings.HasSuffix(got["Description"], `odd\u3164`) ||
		got["Slice"] != "dcm.slice" || got["DevicePolicy"] != "closed" || got["CollectMode"] != "inactive-or-failed" {
		m.t.Errorf("unit after a daemon-reload: want its properties, got %q", got)
	}
	m.run("dcm release " + unit + "; rm /usr/local/bin/odd*")
}

// attacksBounded: under floods of calls by users and by a program on the agents' socket, both
// services stay below half of their MemoryMax=, and the journal stays small. The
// configuration has the maximal size.
func attacksBounded(m machine) {
	m.run(`mkdir -p /var/lib/prometheus/node-exporter; chown -R nobody /var/lib/prometheus
		cd /var/lib/prometheus/node-exporter && seq -f '%0240.0f' 100000 | setpriv --reuid=nobody --clear-groups xargs touch
		seq 24000 | sed 's/.*/[profiles.p&]\ncompute = "SPX"/' >/etc/dcm/dcm.toml.d/90-many.toml
		printf '[agent]\nenabled = true\n' >/etc/dcm/dcm.toml.d/91-agent.toml
		systemctl restart dcm`)
	const logged = "journalctl --boot --unit=dcm --unit=dcm-agent --output=cat | wc -l"
	m.run(`rm -f /run/roots; setsid dcm run -n 8 -- sh -c 'echo held >/run/roots; exec sleep infinity' >/dev/null 2>&1 </dev/null &`)
	m.await("/run/roots", "held") // then a request for 58 partitions waits
	before := m.number(logged)
	for _, flood := range []string{"use", "plan", "dry-run", "acquire", "wait", "release", "account", "history", "usage", "queue"} {
		answered := m.run("timeout 60 " + ada + "e2e-agent attack flood " + flood + " 2 & setpriv --reuid=nobody --regid=nogroup --clear-groups timeout 60 e2e-agent attack flood " + flood + " 2; wait $!")
		m.t.Logf("%s: %q replies, peak memory of the daemon %d MiB", flood, answered, m.highWater("dcm"))
	}
	if n := m.number(logged) - before; n > 20 {
		m.t.Errorf("lines in the journal: want at most 20, got %d", n)
	}
	m.bounded("dcm")
	m.opened("active")
	if r := m.try("timeout 60 " + ada + "e2e-agent attack agents " + agentsSocket + " Account 1 1"); strings.TrimSpace(r.Stdout) != "0" {
		m.t.Errorf("calls of a user on the socket of the agents: want refusals, got %d, %s%s", r.Code, r.Stdout, r.Stderr)
	}
	// A text of 24,000 profiles exceeds the limit, one of 1,800 does not.
	for _, flood := range []string{"UseFor 24000", "UseFor 1800", "PlanFor 1800", "Account 1"} {
		answered := m.run("timeout 120 e2e-agent attack agents " + agentsSocket + " " + flood + " 4")
		m.t.Logf("%s: %q replies, peak memory of dcm-agent %d MiB, of the daemon %d MiB", flood, answered, m.highWater("dcm-agent"), m.highWater("dcm"))
	}
	m.bounded("dcm-agent")
	if got := m.show("dcm-agent.service", "Slice")["Slice"]; got != "system-dcm.slice" { // it reads the topology of all partitions
		m.t.Errorf("cgroup of dcm-agent.service: got %s", got)
	}
	m.bounded("dcm")
	if n := m.number("cat " + agentsFile + " 2>/dev/null | wc -c"); n != 0 {
		m.t.Errorf("size of %s: %d bytes", agentsFile, n)
	}
	m.run("systemctl stop 'dcm-lease-*.scope'; rm -r /var/lib/prometheus /etc/dcm/dcm.toml.d/9?-*.toml; systemctl restart dcm")
	m.opened("inactive")
}

// bounded expects the peak memory of a service below half of its MemoryMax=.
func (m machine) bounded(unit string) {
	m.t.Helper()
	limit := m.number("systemctl show -P MemoryMax " + unit)
	if high := m.highWater(unit); high > limit>>20/2 {
		m.t.Errorf("peak memory of %s: got %d MiB, want at most %d MiB", unit, high, limit>>20/2)
	}
}

// highWater returns the peak memory of a service's main process in MiB.
func (m machine) highWater(unit string) int {
	m.t.Helper()
	return m.number("awk '/VmHWM/ { print $2 }' /proc/$(systemctl show --property=MainPID --value "+unit+")/status") >> 10
}

// number returns the number that a script prints.
func (m machine) number(script string) int {
	m.t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(m.run(script)))
	if err != nil {
		m.t.Fatal(err)
	}
	return n
}
