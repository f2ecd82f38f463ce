package e2e_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"dcm/internal/engine/runstate"
)

// probe prints the number of render nodes that it can open and its cgroup, and exits with 7.
const probe = `#!/bin/sh
n=0
for node in /dev/dri/renderD*; do
	case $( (exec 3<>"$node") 2>&1) in *"No such device"*) n=$((n+1)) ;; esac
done
group=$(sed -n 's/^0:://p' /proc/self/cgroup)
echo "$n of $MINE in $group"
exit 7
`

// ada is the beginning of a command that runs another one as the user ada.
const ada = "setpriv --reuid=ada --regid=ada --init-groups "

// leasesGiven starts with 6 of 64 partitions reserved.
func leasesGiven(m machine) {
	m.put("/usr/local/bin/probe", probe)
	m.run("chmod 755 /usr/local/bin/probe; useradd --create-home ada")
	m.exits(1, ada+"dcm run -- probe")
	if got := m.busError("ada", "Acquire a{sv} 0"); got != accessDenied {
		m.t.Errorf("Acquire of a user outside the group dcm: want %s, got %q", accessDenied, got)
	}
	m.run("usermod --append --groups dcm ada")
	r := m.try(ada + "env MINE=hers dcm run -n 2 --time 1h -- probe")
	if uid := strings.TrimSpace(m.run("id -u ada")); r.Code != 7 || !strings.Contains(r.Stdout, "2 of hers in /dcm.slice/dcm-lease-"+uid) {
		m.t.Errorf("lease of a user: want 2 nodes and exit status 7, got %d, %s%s", r.Code, r.Stdout, r.Stderr)
	}
	m.run("chmod 600 /dev/kfd")
	m.exits(1, ada+"dcm run -- probe", "/dev/kfd")
	m.run("chmod 666 /dev/kfd")
	if r := m.try("timeout 60 " + ada + "dcm run --time 1s -- sleep infinity"); r.Code != 143 {
		m.t.Errorf("lease with --time 1s: want exit status 143, got %d, %s", r.Code, r.Stderr)
	}
	m.exits(0, "systemd-run --quiet --wait --pipe -p IPAddressDeny=any -p TasksMax=77 -- dcm run -- cat /proc/self/cgroup", "IPAddressDeny=", "run-")
	// It inherits the caller's terminal, limits and environment.
	if got := m.run(`ulimit -n 77; MINE=hers script -qec 'dcm run -- sh -c "tty; ulimit -n; echo \$MINE" 2>/dev/null' /dev/null`); !strings.HasPrefix(got, "/dev/pts/") || !strings.HasSuffix(strings.Join(strings.Fields(got), " "), " 77 hers") {
		m.t.Errorf("lease in a terminal: want its tty, limits and environment, got %q", got)
	}
	var dry struct{ Partitions []string }
	text := m.run(ada + "dcm run --gpus 1 --dry-run --json")
	if err := json.Unmarshal([]byte(text), &dry); err != nil || len(dry.Partitions) != 8 || slices.ContainsFunc(dry.Partitions, func(name string) bool {
		return !strings.HasPrefix(name, strings.Split(dry.Partitions[0], "-")[0]+"-")
	}) {
		m.t.Errorf("dry run for a GPU: want its 8 partitions, got %s", text)
	}
}

// lent starts two leases that do not end by themselves, and returns their units.
func (m machine) lent() (hers, roots string) {
	m.t.Helper()
	m.run("rm -f /tmp/hers /run/roots; setsid " + ada + `dcm run -n 3 -- sh -c 'echo held >/tmp/hers; exec sleep infinity' >/dev/null 2>&1 </dev/null &`)
	m.await("/tmp/hers", "held")
	m.run(`setsid dcm run --exclusive -- sh -c 'echo held >/run/roots; exec sleep infinity' >/dev/null 2>&1 </dev/null &`)
	m.await("/run/roots", "held")
	scope := func(kind string) string {
		return strings.TrimSpace(m.run("systemctl list-units --plain --no-legend 'dcm-" + kind + "-*.scope' | cut -d' ' -f1"))
	}
	return scope("lease"), scope("exclusive")
}

// allowed returns the render nodes in the device list of a unit.
func (m machine) allowed(unit string) []string {
	m.t.Helper()
	return strings.Fields(m.run("systemctl show -P DeviceAllow " + unit + " | tr ' ' '\\n' | grep -o '/dev/dri/renderD[0-9]*'"))
}

// kept expects three services and two leases to have the requested partitions, and that no
// other process can open them, not even one of root or of a container.
func (m machine) kept(hers, roots string, parts int) func(when string) {
	m.t.Helper()
	mine, exclusive := m.allowed(hers), m.allowed(roots)
	return func(when string) {
		m.t.Helper()
		for _, c := range []struct {
			unit  string
			nodes []string
			want  string
		}{
			{hers, mine, "yes yes yes"}, {hers, exclusive, "no"}, {hers, m.mine("alpha"), "no no"}, {"alpha.service", mine, "no no no"},
			{roots, exclusive, "yes"}, {roots, mine, "no no no"}, {"", exclusive, "no"}, {"", mine, "yes yes yes"}, {"gpuagent.service", exclusive, "no"},
			{"container", exclusive, "no"}, {"container", mine, "yes yes yes"},
		} {
			if got := m.opens(c.unit, c.nodes...); got != c.want {
				m.t.Errorf("%s, %q opens %s: %s, want %s", when, c.unit, c.nodes, got, c.want)
			}
		}
		r := m.try(fmt.Sprintf("dcm run -n %d -- true", parts-9))
		if r.Code != 75 || !hasAll(r.Stderr, fmt.Sprint(parts-10), fmt.Sprint(parts), hers, "alpha.service") {
			m.t.Errorf("request for more than is free %s: want 75 and the holders, got %d, %s", when, r.Code, r.Stderr)
		}
		if list := m.run("dcm partitions"); strings.Count(list, hers) != 3 || strings.Count(list, roots) != 1 {
			m.t.Errorf("dcm partitions %s: want all holders, got:\n%s", when, list)
		}
	}
}

// heldThrough: three services and two leases keep their partitions during two repartitions,
// kills of all processes of dcm in each profile, and a reboot.
func heldThrough(m machine) {
	services := []string{"alpha.service", "beta@1.service", "gamma.service"}
	const end = "systemctl stop 'dcm-*.scope'"
	for i, s := range []struct {
		profile string
		parts   int
	}{{"cpx-fast", 64}, {"qpx-fast", 32}, {"cpx-fast", 64}} {
		if i > 0 {
			before := m.units(services...)
			m.reserve(s.profile, 3)
			m.exits(75, "dcm apply", "dcm-lease-", "ada")
			m.untouched(before)
			m.run(end + "; dcm apply")
			m.bounced(before)
		}
		hers, roots := m.lent()
		check := m.kept(hers, roots, s.parts)
		// logind does not reconnect to a restarted bus, which would delay a reboot.
		m.run(`for unit in dcm dcm-apply dcm-reserve dcm-guard systemd-journald dbus; do systemctl kill --signal=KILL $unit || :; done; systemctl daemon-reexec; systemctl restart dcm; systemctl try-restart systemd-logind`)
		check("in " + s.profile + ", after a kill of everything and a daemon-reexec")
		m.confinedTo(2, 3, m.allowed(roots)...)
	}
	m.reboot()
	m.run("systemctl is-active dcm " + strings.Join(services, " "))
	m.confinedTo(2, 3)
	if r := m.try("dcm run -n 58 --dry-run"); r.Code != 0 {
		m.t.Errorf("dry run after a reboot: want success, got %s", r.Stderr)
	}
	hers, roots := m.lent()
	m.kept(hers, roots, 64)("after a reboot")
	m.run(end)
}

func leasesLast(m machine) {
	hers, roots := m.lent()
	exclusive := m.allowed(roots)
	check := m.kept(hers, roots, 64)
	check("at first")
	if text := m.run("dcm topology --long"); strings.Count(text, hers) != 3 || !strings.Contains(text, "NUMA node 1") {
		m.t.Errorf("dcm topology --long: want the lease and NUMA nodes, got:\n%s", text)
	}
	m.reserve("qpx-fast", 3)
	m.exits(75, "dcm apply", hers, "ada")
	m.reserve("cpx-fast", 3)
	m.run("dcm apply")
	check("after a repartition that was refused")
	m.exits(1, ada+"dcm release "+roots, roots)
	m.run("systemctl is-active " + roots)
	// A waiter is served when the last lease has ended, here by a kill.
	m.run("timeout 60 dcm run -n 58 --wait -- true & waits=$!\n" + ada + "dcm release " + hers + "\nsystemctl kill --signal=KILL " + roots + "\nwait $waits")
	m.until(opensFor, exclusive[0])
	m.until(noLeases)
	oneByOne(m)
	whenIdle(m)
	reservedBehindLeases(m)
	queueOrder(m)
	queueShown(m)
	drainedAroundWaiters(m)
}

// oneByOne: each of many commands gets the only free partition, whose lease before has just lost its last
// process.
func oneByOne(m machine) {
	m.run(`rm -f /run/most; setsid dcm run -n 57 -- sh -c 'echo held >/run/most; exec sleep infinity' >/dev/null 2>&1 </dev/null &`)
	m.await("/run/most", "held")
	m.run("for i in $(seq 100); do dcm run -- true || exit; done")
	// The lease of the last command keeps its partition until its last process is gone.
	m.until(`[ "$(systemctl list-units --plain --no-legend "dcm-lease-*.scope" | wc -l)" = 1 ]`)
	m.exits(75, "dcm run -n 2 -- true", "2 partitions requested, but 1 of 64 is free", "dcm-lease-0-")
	m.run("systemctl stop 'dcm-lease-*.scope'")
	m.until(noLeases)
}

// queueShown: impossible requests are refused immediately, root does not wait for users, and
// waiting requests are listed and can be removed.
func queueShown(m machine) {
	m.exits(69, ada+"dcm run -n 64 --wait -- true", "58", "64", "alpha 2", "beta-1 3", "gamma 1")
	m.run(`rm -f /run/roots; setsid dcm run -n 8 -- sh -c 'echo held >/run/roots; exec sleep infinity' >/dev/null 2>&1 </dev/null &`)
	m.await("/run/roots", "held")
	m.run(`rm -f /run/ada; setsid sh -c '` + ada + `dcm run -n 58 --wait --time 2h -- true & echo $! >/run/pid.ada; wait $!; echo exit status $?' >/run/ada 2>&1 </dev/null & ` + queued(1))
	m.run("dcm run -n 40 -- true; dcm run --wait -- true")
	m.exits(75, ada+"dcm run -- true") // without a time limit, it would delay the request that waits
	m.run(ada + "dcm run --time 10m -- true")
	m.await("/run/ada", "58", "50", "64")
	id := strings.TrimSpace(m.run("cat /run/pid.ada"))
	if list := strings.Fields(m.run(ada + "dcm queue | sed 1d")); len(list) < 6 || strings.Join(list[:6], " ") != "1 "+id+" ada 58 partitions 2h0m0s" {
		m.t.Errorf("dcm queue: want the request %s of ada, got %q", id, list)
	}
	for _, command := range []string{"dcm queue --json", "dcm status --json", "busctl call org.deviceconfig.Manager1 /org/deviceconfig/Manager1 org.deviceconfig.Manager1 Queue | sed 's/\\\\//g'"} {
		if text := strings.Join(strings.Fields(m.try(command).Stdout), ""); !strings.Contains(text, `"id":`+id+`,`) || !strings.Contains(text, `"user":"ada","partitions":58`) {
			m.t.Errorf("%s: %s", command, text)
		}
	}
	m.exits(0, "dcm status", "'dcm lease queue'")
	m.run("setsid dcm run -n 58 --wait -- true >/dev/null 2>&1 </dev/null & echo $! >/run/pid.root; " + queued(2))
	m.exits(1, ada+"dcm queue --remove $(cat /run/pid.root)", strings.TrimSpace(m.run("cat /run/pid.root")))
	m.run(queued(2) + "; dcm queue --remove " + id)
	m.await("/run/ada", "user 0", "exit status 1")
	m.run("dcm queue --remove $(cat /run/pid.root); " + queued(0) + "; systemctl stop 'dcm-lease-*.scope'")
}

// drainedAroundWaiters: a drain and a process in a lease that requests another one do not
// wait for each other.
func drainedAroundWaiters(m machine) {
	for _, s := range []struct{ name, script, code string }{
		{"its present lease", "exec dcm run --wait -- sh -c 'echo 0 >/run/code'", "0"}, // as after a daemon that ended before it replied
		{"more, alone", "exec dcm run -n 2 --wait -- sh -c 'echo 0 >/run/code'", "0"},
		{"more, with others", "dcm run -n 2 --wait -- true; echo $? >/run/code", "75"},
	} {
		m.put("/run/inner", s.script+"\n")
		m.run(`rm -f /run/code /run/idle /run/go /run/roots; mkfifo /run/go; setsid dcm run -- sh -c 'echo held >/run/roots; read go </run/go; . /run/inner' >/run/outer 2>&1 </dev/null &`)
		m.await("/run/roots", "held")
		m.run("setsid sh -c 'dcm apply --when-idle; echo exit status $?' >/run/idle 2>&1 </dev/null &")
		m.await("/run/idle", "dcm-lease-0-")
		m.run("echo >/run/go")
		m.await("/run/code", s.code)
		m.await("/run/idle", "exit status 0")
		m.until(noLeases)
	}
}

// reservedBehindLeases: dcm stops no unit for a reservation that has to wait for a lease.
func reservedBehindLeases(m machine) {
	m.run(`rm -f /run/roots; setsid dcm run -n 58 --wait -- sh -c 'echo held >/run/roots; exec sleep infinity' >/dev/null 2>&1 </dev/null &`)
	m.await("/run/roots", "held")
	before := m.units("alpha.service", "beta@1.service")
	m.reserve("cpx-fast", 4)
	if r := m.try("dcm apply"); r.Code == 0 || !hasAll(r.Stderr, "6", "dcm-lease-0-") {
		m.t.Errorf("apply with a reservation for leased partitions: want a failure with the lease, got %d: %s", r.Code, r.Stderr)
	}
	m.untouched(before)
	m.run("systemctl stop 'dcm-lease-*.scope'")
	m.until("[ -e /dev/dcm/beta-1/render3 ]")
	m.untouched(map[string]string{"alpha.service": before["alpha.service"]})
	m.reserve("cpx-fast", 3)
	m.run("dcm apply")
	m.confinedTo(2, 3)
}

// queued returns a shell command that waits until the queue has this many requests.
func queued(n int) string {
	return waitFor(fmt.Sprintf("[ $(dcm queue | grep -c \"^ *[0-9]\") = %d ]", n))
}

// queueOrder: waiters are served in order, except those that were killed. After a restart of the
// daemon they request again, and keep their order.
func queueOrder(m machine) {
	hold := func() {
		m.run(`rm -f /run/roots /run/served; setsid dcm run -n 58 --wait -- sh -c 'echo held >/run/roots; exec sleep infinity' >/dev/null 2>&1 </dev/null &`)
		m.await("/run/roots", "held")
	}
	wait := func(name string, n int) {
		m.run("setsid dcm run -n 58 --wait -- sh -c 'echo " + name + " >>/run/served' >/run/" + name + " 2>&1 </dev/null & echo $! >/run/pid." + name +
			"; " + queued(n))
	}
	hold()
	for i, name := range []string{"first", "second", "third"} {
		wait(name, i+1)
	}
	m.run("kill -KILL $(cat /run/pid.first) && " + queued(2) + " && systemctl stop 'dcm-lease-*.scope'")
	m.await("/run/served", "second\nthird")
	if served := m.run("cat /run/served"); served != "second\nthird" {
		m.t.Errorf("served waiters: want the second and third, got %q", served)
	}
	hold()
	for i, name := range []string{"fourth", "fifth", "sixth"} {
		wait(name, i+1)
	}
	m.run("cp /run/fourth /run/before; systemctl restart dcm")
	m.until("! cmp -s /run/before /run/fourth") // the command has reported that the daemon ended
	m.run(queued(3) + "; systemctl stop 'dcm-lease-*.scope'")
	m.await("/run/served", "fourth\nfifth\nsixth")
}

// whenIdle: while a repartition waits for a lease, no other lease is granted. It continues when
// the lease ends.
func whenIdle(m machine) {
	m.run(`rm -f /run/roots; setsid dcm run -- sh -c 'echo held >/run/roots; exec sleep infinity' >/dev/null 2>&1 </dev/null &`)
	m.await("/run/roots", "held")
	before := m.listed()
	const (
		wait = `rm -f /run/idle; setsid sh -c 'dcm apply qpx-fast --when-idle & echo $! >/run/idle.pid; wait $!; echo exit status $?' >/run/idle 2>&1 </dev/null &`
		who  = "dcm apply qpx-fast --when-idle"
	)
	m.run(wait)
	m.await("/run/idle", "dcm-lease-0-")
	m.exits(75, "dcm run -- true", who, "root")
	if warnings := strings.Join(m.account().Warnings, "\n"); !hasAll(warnings, who, "dcm-lease-0-") {
		m.t.Errorf("warnings: want the wait of %s, got %q", who, warnings)
	}
	m.run("systemctl restart dcm; kill -TERM $(cat /run/idle.pid)")
	m.await("/run/idle", "exit status 143")
	m.run("dcm run -- true")
	if now := m.listed(); now != before {
		m.t.Errorf("modes after an interrupted wait: want them unchanged, got %s", now)
	}
	m.run(wait)
	m.await("/run/idle", "dcm-lease-0-")
	m.run("systemctl stop 'dcm-lease-*.scope'")
	m.await("/run/idle", "exit status 0")
	if now := m.listed(); now == before {
		m.t.Errorf("modes after the end of the leases: want others, got %s", now)
	}
	m.run("dcm apply --clear")
}

// listed returns the modes after the last run.
func (m machine) listed() string {
	m.t.Helper()
	return fmt.Sprint(decode[runstate.Partitions](m, "partitions.json").Modes)
}

// limitsKept: a lease has the limits of its caller's slice. Without the kernel's controllers
// the test provides their files and checks only the properties in PID 1.
func limitsKept(m machine) {
	m.put("/etc/systemd/system/limited.slice", "[Slice]\nMemoryMax=512M\nTasksMax=200\n")
	m.run("systemctl daemon-reload; systemctl start limited.slice")
	controllers := strings.Fields(m.run("cat /sys/fs/cgroup/cgroup.controllers"))
	real := slices.Contains(controllers, "memory") && slices.Contains(controllers, "pids")
	if !real {
		m.t.Logf("NOT tested: the kernel's enforcement of a lease's limits, since cgroup2 has only the controllers %q here, "+
			"and memory and pids are not among them while the host has them in hierarchies of version 1 (its /proc/cgroups)", controllers)
		for file, text := range map[string]string{"memory.max": "536870912", "pids.max": "200", "io.max": "8:0 rbps=1024"} {
			m.put("/run/limits/"+file, text+"\n")
		}
		m.put("/run/systemd/system/dcm.service.d/limits.conf", "[Service]\nBindReadOnlyPaths=/run/limits:/sys/fs/cgroup/limited.slice\n")
		m.run("systemctl daemon-reload; systemctl restart dcm")
	}
	m.put("/run/show-limits", `group=$(sed -n "s/^0:://p" /proc/self/cgroup); systemctl show --property=MemoryMax,TasksMax "${group##*/}"; cat /sys/fs/cgroup$group/memory.max /sys/fs/cgroup$group/pids.max 2>&1`)
	r := m.try("systemd-run --quiet --scope --slice=limited.slice dcm run -- sh /run/show-limits")
	if !strings.Contains(r.Stdout, "MemoryMax=536870912") || !strings.Contains(r.Stdout, "TasksMax=200") {
		m.t.Errorf("limits of the lease: want those of limited.slice, got %s%s", r.Stdout, r.Stderr)
	}
	if real && !strings.HasSuffix(strings.TrimSpace(r.Stdout), "536870912\n200") {
		m.t.Errorf("limits of the lease by the kernel: want 512M and 200, got %s", r.Stdout)
	}
	if !real && !hasAll(r.Stderr, "io.max", "limited.slice") {
		m.t.Errorf("note of dcm run: want io.max of limited.slice, got %s", r.Stderr)
	}
	m.run("rm -rf /run/systemd/system/dcm.service.d/limits.conf; systemctl daemon-reload; systemctl restart dcm; systemctl stop limited.slice")
}

// shared: a third holder of a partition for two is refused, for services and for leases.
func shared(m machine) {
	const uncapped = "dmem" // the controller that this kernel lacks
	m.put("/etc/systemd/system/notebook@.service", holder)
	m.put(settings, fmt.Sprintf(reserving, "cpx-fast", 3)+"[[reservation]]\nunit = \"notebook@\"\npartitions = 1\nshare = 2\n[leases]\nshares = 2\nmax-per-user = 2\n")
	m.run("systemctl daemon-reload; dcm apply; systemctl start notebook@1 notebook@2")
	if r := m.try("systemctl start notebook@3"); r.Code == 0 {
		m.t.Error("third instance of a reservation for two: want a failure")
	}
	if log := m.run("journalctl --sync; journalctl -o cat -u notebook@3"); !hasAll(log, "share = 2", "notebook@1.service", "notebook@2.service") {
		m.t.Errorf("journal of the third instance: want the limit and the other instances, got:\n%s", log)
	}
	if log := m.run("journalctl -o cat -u notebook@1"); !strings.Contains(log, uncapped) {
		m.t.Errorf("journal of the first instance: want the missing limit, got:\n%s", log)
	}
	a := m.account()
	if !strings.Contains(a.Guard.Uncapped, uncapped) || !slices.ContainsFunc(a.Warnings, func(w string) bool { return hasAll(w, "notebook", uncapped) }) {
		m.t.Errorf("warnings: want one about notebook and %s, got %q, %+v", uncapped, a.Warnings, a.Guard)
	}
	mine := m.mine("notebook")
	for _, unit := range []string{"notebook@1.service", "notebook@2.service"} {
		if got := m.opens(unit, mine[0], m.mine("alpha")[0]); got != "yes no" {
			m.t.Errorf("nodes that %s opens: want its own and not alpha's, got %s", unit, got)
		}
	}
	if list := m.run("dcm partitions"); !strings.Contains(list, "notebook@1.service notebook@2.service") {
		m.t.Errorf("dcm partitions: want both instances, got:\n%s", list)
	}
	m.run("systemctl stop notebook@1; systemctl reset-failed notebook@3; systemctl start notebook@3")

	for _, name := range []string{"one", "two"} {
		m.run("rm -f /run/" + name + "; setsid dcm run --share 2 -- sh -c 'echo held >/run/" + name + "; exec sleep infinity' >/run/" + name + ".out 2>&1 </dev/null &")
		m.await("/run/"+name, "held")
		if out := m.run("cat /run/" + name + ".out"); !strings.Contains(out, uncapped) {
			m.t.Errorf("output of dcm run --share: want the missing limit, got %s", out)
		}
	}
	scopes := strings.Fields(m.run("systemctl list-units --plain --no-legend 'dcm-share2-*.scope' | cut -d' ' -f1"))
	if len(scopes) != 2 || strings.Join(m.allowed(scopes[0]), " ") != strings.Join(m.allowed(scopes[1]), " ") {
		m.t.Errorf("shared leases: want two of one partition, got %s", scopes)
	}
	third := m.run("dcm run --share 2 --dry-run | tail -1")
	if list := m.run("dcm partitions --all | grep -F " + strings.TrimSpace(third)); strings.Contains(list, "dcm-share2") {
		m.t.Errorf("third sharer: want another partition, got %s", list)
	}
	m.exits(1, "dcm run --share 3 -- true", "shares = 2", "[leases]")
	m.exits(69, ada+"dcm run -n 3 -- true", "max-per-user", "[leases]", "2")
	// A request with --wait waits until the limit permits it.
	m.run("rm -f /tmp/hers; setsid " + ada + "dcm run -n 2 -- sh -c 'echo held >/tmp/hers; exec sleep infinity' >/dev/null 2>&1 </dev/null &")
	m.await("/tmp/hers", "held")
	m.exits(75, ada+"dcm run -- true", "max-per-user", "[leases]", "2")
	m.run("timeout 60 " + ada + "dcm run --wait -- true & waits=$!; " + queued(1) + "; systemctl stop 'dcm-lease-*.scope'; wait $waits")
	m.run("dcm release " + scopes[0] + "; dcm release " + scopes[1] + "; systemctl stop 'notebook@*'")
	m.reserve("cpx-fast", 3)
	m.run("dcm apply")
}
