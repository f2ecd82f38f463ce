package e2e_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"dcm/internal/exitcode"
)

// exitStatuses tests each exit status of the table in dcm(1) that requires a daemon. At its
// beginning six of 64 partitions are reserved, and the user ada is in the group dcm.
func exitStatuses(m machine) {
	m.run("rm -f /run/held /run/slow")
	const (
		hold    = `rm -f /run/held; setsid dcm run -n 50 -- sh -c 'echo held >/run/held; exec sleep infinity' >/dev/null 2>&1 </dev/null & e2e-agent await /run/held held; `
		free    = `; code=$?; systemctl stop 'dcm-lease-*.scope'; exit $code`
		refused = `cp /etc/dcm/dcm.toml /run/before; `
		back    = `; code=$?; cp /run/before /etc/dcm/dcm.toml; systemctl stop 'dcm-lease-*.scope'; dcm apply >/dev/null; exit $code`
		down    = `systemctl stop dcm; `
		up      = `; code=$?; systemctl start dcm; exit $code`
		// systemd's record of the manual start, before it restarts the daemon.
		start = `systemctl restart dcm; journalctl --sync; code=$(journalctl --boot --unit=dcm --output=cat | grep -o 'Main process exited, code=exited, status=[0-9]*' | tail -n 1 | cut -d= -f3); `
		idle  = `rm -f /run/idle; dcm apply --when-idle >/run/idle 2>&1 & pid=$!; e2e-agent await /run/idle dcm-lease-0-; kill -`
	)
	wait := "dcm run -n 50 --wait -- true 2>/dev/null & pid=$!; " + queued(1) + "; kill -"
	seen := make(map[string]bool)
	for _, s := range []struct {
		command string
		status  int
		script  string
		want    string // part of the output
	}{
		{"run", 69, "dcm run -n 64 -- true", ""},
		{"run", 69, "dcm run --mode 3g.40gb -- true", "3g.40gb"},
		{"run", 75, hold + "dcm run -n 50 -- true" + free, "dcm-lease-0-"},
		{"run", 1, down + "dcm run -- true" + up, "dcm.service"},
		{"release", 1, down + "dcm release dcm-lease-0-00000000.scope" + up, "dcm.service"},
		{"queue", 1, down + "dcm queue" + up, "dcm.service"},
		{"selftest", 0, down + "dcm selftest --read --archive /run/selftest.tar.gz" + up, "dcm.service"},
		{"plan", 1, hold + "dcm plan qpx-fast" + free, "dcm lease release"},
		{"status", 1, down + "dcm status" + up, ""},
		{"apply", 75, hold + refused + "dcm use qpx-fast >/dev/null 2>&1; dcm apply" + back, "dcm-lease-0-"},
		{"use", 75, hold + refused + "dcm use qpx-fast" + back, "dcm-lease-0-"},
		{"selftest", 75, hold + "dcm selftest --change" + free, "lease"},
		{"run", 130, hold + wait + "INT $pid; wait $pid" + free, ""},
		{"run", 143, hold + wait + "TERM $pid; wait $pid" + free, ""},
		{"apply", 130, hold + idle + "INT $pid; wait $pid" + free, ""},
		{"apply", 143, hold + idle + "TERM $pid; wait $pid" + free, ""},
		{"daemon", 75, hold + refused + "dcm use qpx-fast >/dev/null 2>&1; " + start + "(exit $code)" + back, ""},
		{"daemon", 69, refused + `sed -i 's/^profile = .*/profile = "tpx-nps1"/' /etc/dcm/dcm.toml; ` + start + "(exit $code)" + back, ""},
		{"use", 4, refused + overtaken("dcm use qpx-fast") + back, "cpx-fast"},
		{"apply", 4, refused + overtaken("dcm apply qpx-fast") + "; code=$?; dcm apply --clear >/dev/null; (exit $code)" + back, "cpx-fast"},
		{"undo", 4, "dcm use qpx-fast >/dev/null; dcm use cpx-fast >/dev/null; " + refused + overtaken("dcm undo --yes") + back, "cpx-fast"},
		{"undo", 75, hold + refused + "dcm undo --yes" + back, "dcm-lease-0-"},
	} {
		seen[strconv.Itoa(s.status)+" "+s.command] = true
		r := m.try("exec 2>&1; " + s.script)
		if r.Code != s.status || !strings.Contains(r.Stdout, s.want) {
			m.t.Errorf("%s: exit status %d, want %d\n%s", s.script, r.Code, s.status, r.Stdout)
		}
	}
	for command, text := range m.whileStarting() {
		seen["75 "+command] = true
		if want := "exit status 75"; !strings.Contains(text, want) || !strings.Contains(text, "dcm.service") {
			m.t.Errorf("while the daemon is starting, dcm %s: %s, want %s", command, text, want)
		}
	}
	for _, e := range exitcode.Table() {
		for _, c := range e.Commands {
			if e.Daemon && !seen[strconv.Itoa(e.Status)+" "+c] {
				m.t.Errorf("exit statuses: want a case for dcm %s with %d", c, e.Status)
			}
		}
	}
}

// whileStarting runs commands concurrently while a start of the daemon hangs, and returns
// their outputs.
func (m machine) whileStarting() map[string]string {
	m.t.Helper()
	commands := map[string]string{"run": "run -- true", "release": "release dcm-lease-0-00000000.scope", "queue": "queue", "apply": "apply", "use": "use cpx-fast"}
	const drop = "/run/systemd/system/dcm.service.d"
	m.put(drop+"/hang.conf", "[Service]\nExecStartPre=sleep infinity\n")
	m.run("systemctl daemon-reload; systemctl restart --no-block dcm")
	m.until(`[ "$(systemctl show -P SubState dcm)" = start-pre ]`)
	script := ""
	for name, line := range commands {
		script += "(dcm " + line + " >/run/starting." + name + " 2>&1; echo exit status $? >>/run/starting." + name + ") & "
	}
	m.run(script + "wait")
	m.run("rm -r " + drop + "; systemctl daemon-reload; systemctl stop dcm; systemctl start dcm")
	out := make(map[string]string)
	for name := range commands {
		out[name] = m.run("cat /run/starting." + name)
	}
	return out
}

// overtaken selects a profile, and another one while a switch of its run hangs.
func overtaken(command string) string {
	return `dcm-sim fault --gpu all --op compute --hang forever; rm -f /run/overtaken; ` + command +
		` >/run/overtaken 2>&1 & pid=$!; e2e-agent await /run/dcm/state.json applying; (dcm use cpx-fast >/run/second 2>&1 &); ` + waitFor(`! grep -hs "^profile" /etc/dcm/dcm.toml /run/dcm/dcm.toml.d/zz-selected.toml | grep -q qpx-fast`) + `; dcm-sim fault --clear; wait $pid; code=$?; cat /run/overtaken; dcm-sim reset; (exit $code)`
}

// daemonComesBack: no command fails during restarts and kills of the daemon. A refused change
// does not restart the daemon.
func daemonComesBack(m machine) {
	m.run(`rm -f /run/loop.*; (n=0; while [ ! -e /run/loop.stop ]; do dcm run -- true 2>/run/loop.last || { echo $?; cat /run/loop.last; } >>/run/loop.errors; n=$((n+1)); done; echo $n runs >/run/loop.ended) >/dev/null 2>&1 </dev/null &`)
	m.run("for i in 1 2 3; do systemctl restart dcm; dcm run -- true; done")
	m.run("for i in 1 2 3; do systemctl kill --signal=KILL dcm; dcm run -- true; done; touch /run/loop.stop")
	m.await("/run/loop.ended", "runs")
	if errors := m.try("cat /run/loop.errors").Stdout; errors != "" {
		m.t.Errorf("commands during %s: want no failure, got %s", m.run("cat /run/loop.ended"), errors)
	}
	m.t.Log(m.run("cat /run/loop.ended"))

	m.run(`rm -f /run/held; cp /etc/dcm/dcm.toml /run/before; setsid dcm run -- sh -c 'echo held >/run/held; exec sleep infinity' >/dev/null 2>&1 </dev/null &`)
	m.await("/run/held", "held")
	m.until("systemctl is-active --quiet dcm") // it serves calls before its first check has ended
	before := m.units("dcm.service")
	m.exits(75, "dcm use qpx-fast", "dcm-lease-0-")
	m.exits(75, "dcm apply", "dcm-lease-0-")
	m.exits(0, "dcm release $(systemctl list-units --plain --no-legend 'dcm-lease-*.scope' | cut -d' ' -f1)")
	m.untouched(before)
	m.run("cp /run/before /etc/dcm/dcm.toml; dcm apply")
}

// reexecsOutlasted: during continuous daemon-reexecs no request with --wait fails. Others fail
// only with a transient error.
func reexecsOutlasted(m machine) {
	const callers = 3
	m.run(fmt.Sprintf(`rm -f /run/loop.*; for i in $(seq %d); do (n=0; while [ ! -e /run/loop.stop ]; do
			dcm run --wait -n $((i*i)) -- true 2>/run/loop.last.$i || { echo $?; cat /run/loop.last.$i; } >>/run/loop.errors
			dcm run -- true 2>/run/loop.last.$i; code=$?; [ $code = 0 ] || [ $code = 75 ] || { echo $code; cat /run/loop.last.$i; } >>/run/loop.errors
			n=$((n+1)); done; echo $n runs >/run/loop.ended.$i) >/dev/null 2>&1 </dev/null & done`, callers))
	for range 5 {
		m.run("for i in $(seq 10); do systemctl daemon-reexec; done; dcm run --wait -- true")
	}
	m.run("touch /run/loop.stop")
	for i := range callers {
		m.await(fmt.Sprintf("/run/loop.ended.%d", i+1), "runs")
	}
	if errors := m.try("cat /run/loop.errors").Stdout; errors != "" {
		m.t.Errorf("commands during %s: want no failure, got %s", m.run("cat /run/loop.ended.*"), errors)
	}
	m.t.Log(m.run("cat /run/loop.ended.*"))
	m.until(noLeases)
}

// leaseOfAService: a stop or restart of a service that runs dcm run ends all processes of its
// lease. The OOM kill of one process does not end a lease.
func leaseOfAService(m machine) {
	const leases = "systemctl list-units --plain --no-legend 'dcm-lease-*.scope' | cut -d' ' -f1"
	m.put("/run/systemd/system/lent.service", "[Service]\nExecStart=dcm run -n 2 -- sh -c 'sleep infinity & echo lent >/run/lent; exec sleep infinity'\n")
	m.put("/run/systemd/system/once.service", "[Service]\nType=oneshot\nExecStart=dcm run -n 2 -- dcm run -n 3 -- sh -c 'sleep infinity & cat /proc/self/cgroup >/run/once'\n")
	m.run("systemctl daemon-reload")
	lent := func(do string) string {
		m.run("rm -f /run/lent; systemctl " + do + " lent")
		m.await("/run/lent", "lent")
		return m.until(leases + "; [ $(" + leases + " | wc -l) -le 1 ]")
	}
	first := lent("start")
	second := lent("restart")
	if first == second || len(strings.Fields(second)) != 1 {
		m.t.Errorf("lease after a restart of its service: got %q, want another one than %q", second, first)
	}
	properties := m.show(second, "PartOf", "Description", "OOMPolicy")
	if properties["PartOf"] != "lent.service" || !strings.HasSuffix(properties["Description"], ": sh") {
		m.t.Errorf("properties of the lease: want PartOf= its service and a description, got %v", properties)
	}
	if policy := properties["OOMPolicy"]; policy != "continue" {
		m.t.Errorf("OOMPolicy of the lease: want continue, got %s", policy)
	}
	m.run("systemctl stop lent")
	m.until(noLeases)
	lent("start")
	m.run("systemctl kill --signal=KILL lent")
	m.until(noLeases)
	m.run("systemctl reset-failed lent; systemctl start once; grep -q dcm-lease- /run/once")
	m.until(noLeases)
	if failed := m.try("systemctl list-units --failed --plain --no-legend 'dcm-lease-*' lent.service once.service").Stdout; failed != "" {
		m.t.Errorf("failed units: want none, got %s", failed)
	}

	m.run(`rm -f /run/held; setsid dcm run -- sh -c 'echo held >/run/held; exec sleep infinity' '\' >/dev/null 2>&1 </dev/null &`)
	m.await("/run/held", "held")
	scope := m.run("systemctl daemon-reload; " + leases)
	if unit := m.run("cat /run/systemd/transient/" + scope); strings.Contains(unit, "infinity") || slices.ContainsFunc(strings.Split(unit, "\n"), func(line string) bool {
		return strings.HasPrefix(line, "Description=") && strings.HasSuffix(line, `\`)
	}) {
		m.t.Errorf("unit file of the lease: want no argument and no continued line, got\n%s", unit)
	}
	if p := m.show(scope, "Slice", "CollectMode"); p["Slice"] != "dcm.slice" || p["CollectMode"] != "inactive-or-failed" {
		m.t.Errorf("lease after a daemon-reload: want its slice and collect mode, got %v", p)
	}
	m.run("systemctl stop " + scope)
	m.run("rm /run/systemd/system/lent.service /run/systemd/system/once.service; systemctl daemon-reload")
}
