package e2e_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/status"
)

// exclusiveStays: through restarts and kills of dcm's units, neither a user nor a unit without
// its device list can open an exclusive partition.
func exclusiveStays(m machine) {
	alpha, gamma := m.mine("alpha"), m.mine("gamma")
	closed := slices.Concat(alpha, gamma)
	grabbed := m.grabs(closed...)
	m.run(`systemctl restart dcm-reserve; systemctl restart dcm-apply; systemctl restart dcm; systemctl daemon-reexec
		systemctl start dcm-guard; systemctl restart alpha; systemctl stop dcm-guard`)
	// The first run of dcm-guard is killed, and dcm starts another one.
	const killed = "[Service]\nExecStartPre=+sh -c '[ -e /run/killed ] || { touch /run/killed; kill -KILL $$$$; }'\n"
	m.put("/run/systemd/system/dcm-guard.service.d/killed.conf", killed)
	m.reserve("cpx-fast", 2)
	m.run("rm -f /run/killed; systemctl daemon-reload; dcm apply; test -e /run/killed")
	m.until("! systemctl is-failed --quiet dcm-guard")
	m.run("rm -r /run/systemd/system/dcm-guard.service.d; systemctl daemon-reload")
	m.confinedTo(2, 2)
	m.reserve("cpx-fast", 3)
	m.run("dcm apply")
	m.confinedTo(2, 3)
	// A slice gets a new cgroup after a stop. The run that would update the guard is killed.
	m.put("/run/systemd/system/dcm-guard.service.d/killed.conf", killed)
	m.run(`rm -f /run/killed; systemctl daemon-reload; systemctl stop dcm-alpha.slice; systemctl start alpha; test -e /run/killed`)
	m.until("dcm guard status")
	m.run("rm -r /run/systemd/system/dcm-guard.service.d; systemctl daemon-reload")
	m.confinedTo(2, 3)
	if now := slices.Concat(m.mine("alpha"), m.mine("gamma")); !slices.Equal(now, closed) {
		m.t.Fatalf("exclusive nodes: want %s, got %s", closed, now)
	}
	if opened := grabbed(); len(opened) > 0 {
		m.t.Errorf("nodes opened by a user: want none, got %s", opened)
	}
	// A service has lost its list of devices, and root starts a unit among the holders.
	m.put("/run/systemd/system/beta@1.service.d/60-lost.conf", "[Service]\nDevicePolicy=auto\nDeviceAllow=\n")
	m.run(`systemctl daemon-reload; systemctl restart beta@1; systemd-run --quiet --unit=other --slice=dcm.slice sleep infinity`)
	free := m.run(`for i in $(seq 128 191); do echo /dev/dri/renderD$i; done | grep -vxF "$1" | tail -1`, strings.Join(slices.Concat(closed, m.mine("beta-1")), "\n"))
	for _, unit := range []string{"beta@1.service", "other.service"} {
		if got := m.opens(unit, append([]string{strings.TrimSpace(free)}, closed...)...); got != "yes no no no" {
			m.t.Errorf("nodes opened by %s without a device list: want the free one only, got %s", unit, got)
		}
	}
	if got := m.opens("alpha.service", alpha...); got != "yes yes" {
		m.t.Errorf("nodes of alpha opened by alpha: want both, got %s", got)
	}
	m.run("systemctl stop other; rm -r /run/systemd/system/beta@1.service.d; systemctl daemon-reload; systemctl restart beta@1")
	m.confinedTo(2, 3)
	guardShown(m)
}

// exclusiveNamed: a partition is not reported as exclusive while another process has it open.
// The node has the device number of /dev/full, so that it can be opened.
func exclusiveNamed(m machine) {
	delta := func(exclusive bool) {
		m.put(settings, fmt.Sprintf(reserving, "cpx-fast", 3)+fmt.Sprintf("[[reservation]]\nname = \"delta\"\npartitions = 1\nexclusive = %t\n", exclusive))
		m.run("dcm apply; systemctl start dcm-guard") // no unit waits for partitions that are reserved by name only
	}
	openable := func(node string) { m.run(`rm "$1"; mknod -m 666 "$1" c 1 7`, node) }
	restore := func(node string) { m.run(`rm "$1"; mknod -m 666 "$1" c 226 "${1#/dev/dri/renderD}"`, node) }
	delta(false)
	node := m.mine("delta")[0]
	openable(node)
	grabbed := m.grabs(node)
	delta(true)
	const named = "confined, not exclusive: e2e-agent["
	for command, code := range map[string]int{"dcm status": 1, "dcm guard status": 2} {
		if r := m.try(command); r.Code != code || !strings.Contains(r.Stdout, "e2e-agent[") || !strings.Contains(r.Stdout, "grabber.service") {
			m.t.Errorf("%s: want the process in the output, got exit status %d:\n%s%s", command, r.Code, r.Stdout, r.Stderr)
		}
	}
	if opened := grabbed(); !slices.Equal(opened, []string{node}) {
		m.t.Errorf("the user has opened %s, want %s", opened, node)
	}
	if r := m.try("dcm guard status"); r.Code != 0 || strings.Contains(r.Stdout, named) {
		m.t.Errorf("dcm guard status: want 0 and no process, got %d:\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	m.reserve("cpx-fast", 3)
	m.run("dcm apply")
	restore(node)
	pounced(m, named)
	m.confinedTo(2, 3)
}

// pounced: a user's process opens the partitions of a new lease before the guard protects them.
// The lease then gets other partitions. If there are none, its notes name that process.
func pounced(m machine, named string) {
	p := decode[runstate.Partitions](m, "partitions.json")
	for _, n := range []int{1, 2} {
		if n > 1 { // no other partitions are free
			m.run(fmt.Sprintf(`rm -f /run/roots; setsid dcm run -n %d -- sh -c 'echo held >/run/roots; exec sleep infinity' >/dev/null 2>&1 </dev/null &`, 58-n))
			m.await("/run/roots", "held")
		}
		var nodes []string
		for _, name := range strings.Fields(m.run(fmt.Sprintf("dcm run --exclusive -n %d --dry-run | tail -%[1]d", n))) {
			nodes = append(nodes, p.Parts[slices.IndexFunc(p.Parts, func(part runstate.Part) bool { return part.Name == name })].Render)
		}
		// /dev/full and /dev/fuse can be opened, and no other program here uses them.
		m.run(`minor="c 1 7"; for node; do rm "$node"; mknod -m 666 "$node" $minor; minor="c 10 229"; done
			rm -f /run/pounced; touch /run/pounced; chown nobody /run/pounced
			systemd-run --quiet --collect --unit=pouncer --property=User=nobody e2e-agent pounce /run/pounced /run/systemd/transient "$@"`, nodes...)
		m.await("/run/pounced", "ready")
		r := m.try(`dcm run --exclusive -- sh -c 'group=$(sed -n "s/^0:://p" /proc/self/cgroup); systemctl show --property=DeviceAllow "${group##*/}"'`)
		m.await("/run/pounced", "done")
		list := m.run("cat /run/pounced")
		opened := strings.Contains(list, "opened "+nodes[0]+"\n")
		m.t.Logf("of %d nodes the user opened %d; output of the lease: %s%s", n, strings.Count(list, "opened"), r.Stdout, r.Stderr)
		has := strings.Contains(r.Stdout, nodes[0]+" ")
		noted := strings.Contains(r.Stderr, named) && strings.Contains(r.Stderr, "] of pouncer.service has 0000:")
		switch {
		case r.Code != 0 || !strings.Contains(r.Stdout, "/dev/dri/renderD"):
			m.t.Errorf("dcm run: want success and a node, got %d: %s%s", r.Code, r.Stdout, r.Stderr)
		case n == 1 && (has == opened || noted):
			m.t.Errorf("lease whose first node was opened %t: want another node and no note, got %s%s", opened, r.Stdout, r.Stderr)
		case n > 1 && strings.Count(list, "opened") == n && !(has && noted):
			m.t.Errorf("lease whose nodes were all opened: want a note with the process, got %s%s", r.Stdout, r.Stderr)
		}
		m.run("systemctl stop pouncer 'dcm-lease-*.scope'")
		m.run(`for node; do rm "$node"; mknod -m 666 "$node" c 226 "${node#/dev/dri/renderD}"; done`, nodes...)
	}
}

// guardShown: the guard is not listed as a client, and its status has its devices.
func guardShown(m machine) {
	for _, command := range []string{"dcm status", "dcm plan qpx-fast"} {
		if got := m.try(command).Stdout; strings.Contains(got, "dcm-guard") {
			m.t.Errorf("%s: want no dcm-guard, got:\n%s", command, got)
		}
	}
	if got := m.run("systemctl is-active dcm-guard || :"); strings.TrimSpace(got) != "inactive" {
		m.t.Errorf("dcm-guard.service: want inactive, got %s", got)
	}
	if got := m.run("dcm guard status"); !hasAll(got, "/dcm.slice/dcm-alpha.slice", "/system.slice/system-dcm.slice") {
		m.t.Errorf("dcm guard status: want the slices of the devices, got:\n%s", got)
	}
	var status struct {
		State   string
		Devices int
		Table   []runstate.Guarded
	}
	if err := json.Unmarshal([]byte(m.run("dcm guard status --json")), &status); err != nil || status.State != "loaded" || status.Devices != 6 || len(status.Table) != 6 {
		m.t.Errorf("dcm guard status --json: want 6 devices, got %v, %+v", err, status)
	}
	m.run("dcm guard off; dcm guard on; dcm guard off; dcm guard on")
	m.confinedTo(2, 3)
}

// sliceStopped: dcm.slice gets a new cgroup when it is started again. The guard follows, also
// if the daemon is stopped.
func sliceStopped(m machine) {
	for _, daemon := range []string{"start", "stop"} {
		m.run("systemctl " + daemon + " dcm; systemctl stop dcm.slice; systemctl start alpha beta@1 gamma amd-metrics-exporter")
		m.confinedTo(2, 3)
	}
	// After a stop of dcm.slice no unit starts in it. The slices of the holders do not exist then, and no
	// process may open their partitions.
	alpha := m.mine("alpha")
	m.run(`rm -f /run/opened; systemd-run --quiet --unit=stubborn --slice=dcm.slice --property=TimeoutStopSec=1s sh -c 'trap "" TERM; while :; do sleep 1; done'
		systemd-run --quiet --collect --unit=prober sh -c 'while :; do case $( (exec 3<>'"$1"') 2>&1) in *"No such device"*) echo opened >/run/opened ;; esac; done'
		systemctl stop dcm.slice`, alpha[0])
	m.until("! systemctl list-jobs --no-legend | grep dcm")
	m.run("systemctl stop prober")
	if got := m.opens("", alpha...); got != "no no" {
		m.t.Errorf("nodes of alpha with an empty slice, opened by root: want none, got %s", got)
	}
	m.run("[ ! -e /run/opened ]")
	m.run("systemctl start dcm alpha beta@1 gamma amd-metrics-exporter")
	m.confinedTo(2, 3)
	// dcm.slice is stopped and started again by a unit without a reservation. Six devices are still
	// guarded, and alpha's slice does not exist.
	m.run("systemctl stop dcm.slice; systemd-run --quiet --unit=other --slice=dcm.slice sleep infinity")
	m.await("/run/dcm/guard.json", `"devices": 6`) // render nodes and cards
	if got := m.opens("", m.mine("alpha")...); got != "no no" {
		m.t.Errorf("nodes of alpha with a stopped slice, opened by root: want none, got %s", got)
	}
	m.run("systemctl stop other; systemctl start dcm alpha beta@1 gamma amd-metrics-exporter")
}

func guardOff(m machine) {
	m.reserve("cpx-fast", 1)
	m.run("dcm apply; systemctl start alpha beta@1 gamma")
	alpha := m.mine("alpha")
	shut := func(want string) {
		m.t.Helper()
		if got := m.opens("", alpha[0]); got != want {
			m.t.Errorf("root's shell opens %s: %s, want %s", alpha[0], got, want)
		}
	}
	shut("no")
	m.run("dcm guard off")
	shut("yes")
	if a := m.account(); a.Guard.Loaded || a.Guard.Why == "" {
		m.t.Errorf("guard after dcm guard off: want it not loaded and why, got %+v", a.Guard)
	}
	m.run("dcm apply; systemctl restart alpha")
	shut("yes")
	m.run("dcm guard on")
	shut("no")
	m.withoutPrograms(alpha[0])
	shut("no")
	m.run("dpkg --remove dcm")
	shut("yes")
	m.run("[ ! -e /sys/fs/bpf/dcm ] && [ ! -e /dev/dcm ] && [ ! -e /run/cdi/dcm.json ] && systemctl is-active alpha gpuagent")
	m.reinstalled()
}

// withoutPrograms makes the load of the guard fail, as on an old or locked kernel. Then dcm does
// not report partitions as exclusive.
func (m machine) withoutPrograms(node string) {
	m.t.Helper()
	m.put("/run/systemd/system/dcm-guard.service.d/refused.conf", "[Service]\nSystemCallFilter=~bpf\n")
	m.run("systemctl daemon-reload; dcm guard off; dcm guard on; systemctl start dcm-guard; systemctl restart dcm-apply; systemctl start dcm-guard")
	if got := m.opens("", node); got != "yes" {
		m.t.Errorf("exclusive node without a guard, opened by root: want it open, got %s", got)
	}
	a := m.healthIs(status.Shared)
	if a.Guard.Loaded || a.Guard.Unconfined || a.Guard.Why == "" {
		m.t.Errorf("guard without device programs: want it not loaded, units confined, and why, got %+v", a.Guard)
	}
	r := m.try("dcm run --exclusive -- true")
	if r.Code != 0 || !strings.Contains(r.Stderr, "confined, not exclusive: ") {
		m.t.Errorf("dcm run --exclusive without a guard: want success and a note, got %d, %s", r.Code, r.Stderr)
	}
	found := 0
	for _, e := range m.entries("--identifier=dcm-guard") {
		if text, _ := e["MESSAGE"].(string); strings.Contains(text, a.Guard.Why) {
			found++
		}
	}
	if found != 1 {
		m.t.Errorf("messages about the guard's reason: want one, got %d", found)
	}
	m.run("rm -r /run/systemd/system/dcm-guard.service.d; systemctl daemon-reload; systemctl restart dcm-guard")
}
