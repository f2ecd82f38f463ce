package e2e_test

import (
	"strings"

	"dcm/internal/frontends/status"
)

// fragile are units that end without a driver and do not fail: a client with a condition on the driver,
// clients that exit with 0 (PID 1 unloads those that no unit references), and unlisted units that require
// a client or are bound to one.
var fragile = map[string]string{
	"guarded.service":  "[Unit]\nConditionPathExists=/sys/module/amdgpu\n[Service]\nExecStart=/usr/local/bin/gpu-client\n",
	"leaver.service":   "[Service]\nExecStart=sh -c 'test -e /sys/module/amdgpu || exit 0; exec /usr/local/bin/gpu-client'\n",
	"goer@.service":    "[Service]\nExecStart=sh -c 'test -e /sys/module/amdgpu || exit 0; exec /usr/local/bin/gpu-client'\n",
	"forker.service":   "[Service]\nType=forking\nGuessMainPID=no\nExecStart=sh -c 'test -e /sys/module/amdgpu || exit 0; /usr/local/bin/gpu-client &'\n",
	"breaker.service":  "[Service]\nExecStart=sh -c 'test -e /sys/module/amdgpu || exit 1; exec /usr/local/bin/gpu-client'\n",
	"shadow.service":   "[Unit]\nBindsTo=leaver.service\nAfter=leaver.service\n[Service]\nExecStart=sleep infinity\n",
	"follower.service": "[Unit]\nRequires=breaker.service\nAfter=breaker.service\n[Service]\nExecStart=sleep infinity\n",
	"stopped.service":  "[Service]\nExecStart=sleep infinity\n",
}

// fragileUnits are those that must be active at the end, in the order of their start.
const fragileUnits = "guarded leaver goer@1 forker breaker shadow follower"

// lists returns a configuration that selects the profile and lists these additional clients.
func lists(profile string) string {
	return strings.Replace(selecting(profile), `"not-there"`, `"not-there", "job", "sock", "guarded", "leaver", "goer@", "forker", "breaker", "stopped"`, 1)
}

// fragileReady installs and starts them, below /run or /etc.
func (m machine) fragileReady(below string) {
	m.t.Helper()
	for name, text := range fragile {
		m.put(below+"/systemd/system/"+name, text)
	}
	m.run("systemctl daemon-reload; systemctl start " + fragileUnits + " stopped")
}

func (m machine) fragileGone() {
	m.run("systemctl stop stopped " + fragileUnits + "; rm -f /run/systemd/system/*er.service /run/systemd/system/goer@.service /run/systemd/system/shadow.service /run/systemd/system/guarded.service /run/systemd/system/stopped.service; systemctl daemon-reload")
}

// triggered starts two clients. One is a job (Type=oneshot) whose first run does not end by
// itself. The other one is started by a socket with a waiting connection: without a driver it
// fails repeatedly, until systemd fails the socket.
func (m machine) triggered() {
	m.t.Helper()
	m.put("/run/systemd/system/job.service", "[Service]\nType=oneshot\nExecStart=sh -c '! [ -e /run/job-began ] || exit 0; echo began >/run/job-began; exec sleep infinity'\n")
	m.put("/run/systemd/system/sock.socket", "[Socket]\nListenStream=127.0.0.1:7707\n")
	m.put("/run/systemd/system/sock.service", "[Service]\nExecStart=sh -c 'test -e /sys/module/amdgpu || exit 1; exec /usr/local/bin/gpu-client'\n")
	m.run("systemctl daemon-reload; systemctl start --no-block job; systemctl start sock.socket; systemd-run --quiet --unit=caller bash -c 'exec 3<>/dev/tcp/127.0.0.1/7707; exec sleep infinity'")
	m.await("/run/job-began", "began")
	m.until("systemctl is-active --quiet sock")
}

// duringReload selects cpx-nps4 and acts before the driver is loaded again. Each load hangs, also one of an earlier run.
func (m machine) duringReload(act string) {
	m.t.Helper()
	m.run("dcm-sim fault --op load --hang forever --times always")
	m.put(settings, lists("cpx-nps4"))
	m.run(driverComing + "; " + act + "; dcm-sim fault --clear")
}

// killedInAReload: after a run is killed with the driver unloaded, all clients and their
// dependents are started again. A unit that a user has stopped stays stopped.
func killedInAReload(m machine) {
	m.put(settings, lists("cpx-fast"))
	m.fragileReady("/run")
	defer m.fragileGone()
	m.run("systemctl restart dcm; systemctl is-active " + fragileUnits)
	m.triggered()
	defer m.run("systemctl stop caller sock.socket sock job; rm -f /run/systemd/system/job.service /run/systemd/system/sock.* /run/job-began; systemctl daemon-reload")
	m.duringReload("systemctl kill --signal=KILL dcm-apply")
	m.await("/run/dcm/state.json", `"phase": "waiting"`)
	m.run("systemctl stop stopped")
	m.applied("cpx-nps4")
	m.has(cpx)
	m.run("systemctl is-active amd-metrics-exporter gpuagent dashboard sock.socket sock " + fragileUnits)
	for _, unit := range []string{"job.service", "sock.socket"} {
		if a := m.account(); hasProblem(a, status.Clients, unit) {
			m.t.Errorf("problems: want none about %s, got %+v", unit, a.Problems)
		}
	}
	if got := m.show("stopped.service", "ActiveState")["ActiveState"]; got != "inactive" {
		m.t.Errorf("stopped.service: want inactive after its stop, got %s", got)
	}
	if s := m.state(); s.Error != nil || len(s.Pending) > 0 {
		m.t.Errorf("state of the daemon: want no error and no pending start, got %v and %v", s.Error, s.Pending.Units())
	}
}

// driverLeftUnloaded: after any kind of unload, and with any configuration, the driver is loaded.
func driverLeftUnloaded(m machine) {
	for _, c := range []struct {
		edit string
		code int // exit status of the start of the daemon
	}{
		{"sed -i '/^profile/d' " + settings, 0},
		{"echo 'colour = \"red\"' >>" + settings, 1},
	} {
		m.ready()
		m.run("systemctl stop dcm; dcm-sim fault --op load --hang forever")
		m.put(settings, selecting("cpx-nps4"))
		m.run("systemctl restart --no-block dcm-apply; " + driverComing + "; systemctl kill --signal=KILL dcm-apply")
		m.run("systemctl start " + strings.Join(bouncing, " ") + "; ! [ -e /sys/module/amdgpu ]")
		m.run(c.edit)
		if r := m.try("systemctl start dcm"); (r.Code != 0) != (c.code != 0) {
			m.t.Errorf("start of dcm after %s: got exit status %d: %s", c.edit, r.Code, r.Stderr)
		}
		m.run("systemctl start dcm") // the retry
		m.await("/sys/module/amdgpu/initstate", "live")
		m.clientsAreUp()
	}
}

// oddClients: clients that systemd cannot restart are reported by name before any is stopped. A
// client can be listed by an alias.
func oddClients(m machine) {
	clients := func(profile, more string) {
		m.put(settings, strings.Replace(selecting(profile), `"not-there"`, more, 1))
	}
	m.put("/run/systemd/system/odd.service", "[Service]\nExecStart=/usr/local/bin/gpu-client\n")
	m.run("ln -s odd.service /run/systemd/system/other-name.service; systemctl daemon-reload; systemctl start odd")
	clients("spx-fast", `"other-name"`)
	m.applied("spx-fast")
	m.has(spx)
	m.run("systemctl is-active odd")

	before := m.units(exporter, agentUnit, dashboard, "odd.service", "dcm-apply.service")
	m.run("rm /run/systemd/system/other-name.service; systemctl mask --runtime --force odd || ln -sf /dev/null /run/systemd/system/odd.service; systemctl daemon-reload")
	clients("cpx-fast", `"odd"`)
	m.await("/run/dcm/state.json", `"phase": "waiting"`, "odd.service", "masked")
	m.untouched(before)

	m.run("systemctl stop odd; rm -f /run/systemd/system/odd.service")
	m.applied("cpx-fast")
	m.put("/run/systemd/system/odd.service", "[Unit]\nBefore=dcm-apply.service\n[Service]\nExecStart=/usr/local/bin/gpu-client\n")
	m.run("systemctl daemon-reload")
	m.put(settings, strings.Replace(selecting("cpx-fast"), `"not-there"`, `"odd"`, 1))
	if text := m.try("dcm check").Stderr; !strings.Contains(text, "odd.service") {
		m.t.Errorf("dcm check: want the inactive odd.service, got:\n%s", text)
	}
	m.run("systemctl start odd")
	m.put(settings, strings.Replace(selecting("spx-fast"), `"not-there"`, `"odd"`, 1))
	m.await("/run/dcm/state.json", `"phase": "waiting"`, "odd.service", "dcm-apply.service")
	if text := m.try("dcm check").Stderr; !strings.Contains(text, "odd.service") {
		m.t.Errorf("dcm check: want odd.service, got:\n%s", text)
	}
	m.untouched(map[string]string{exporter: m.units(exporter)[exporter]})
	m.run("systemctl stop odd; rm /run/systemd/system/odd.service; systemctl daemon-reload; systemctl restart dcm")
	m.has(spx)
}
