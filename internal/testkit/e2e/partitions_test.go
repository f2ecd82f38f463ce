package e2e_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/status"
	"dcm/internal/testkit/e2e"
)

// reserving is the configuration of the scenarios with partitions.
const reserving = `profile = "%s"

[clients]
units = ["amd-metrics-exporter", "gpuagent"]

[guard]
observers = ["amd-metrics-exporter"]

[profiles.cpx-fast]
compute = "CPX"
memory = "NPS1"
[profiles.qpx-fast]
compute = "QPX"
memory = "NPS1"
[profiles.spx-fast]
compute = "SPX"
memory = "NPS1"

[[reservation]]
unit = "alpha"
partitions = 2
exclusive = true

[[reservation]]
unit = "beta@1"
partitions = %d
place = "spread"

[[reservation]]
unit = "gamma"
partitions = 1
place = "link"
exclusive = true
`

// holder is a service that has partitions and does not use them.
const holder = "[Service]\nExecStart=sleep infinity\n"

// partitions tests reservations, leases and the guard. The device nodes have no driver: open
// fails with ENXIO if the cgroups permit it, with EPERM if not.
func partitions(t *testing.T, p product) {
	t.Parallel()
	for _, recipe := range suites() {
		t.Run(recipe.Suite, func(t *testing.T) {
			t.Parallel()
			m := installWith(t, recipe, p, driverless())
			for _, name := range []string{"alpha", "beta@", "gamma"} {
				m.put("/etc/systemd/system/"+name+".service", holder)
			}
			m.run("systemctl daemon-reload; systemctl add-wants multi-user.target alpha beta@1 gamma")
			for _, s := range []struct {
				name string
				run  func(machine)
			}{
				{"services confined to their reservations", reservedConfined},
				{"reservations follow a repartition", reservedFollow},
				{"changed reservations restart their services only", reservedAlone},
				{"dcm-reserve killed and failing", reserveKilled},
				{"exclusive partitions stay closed", exclusiveStays},
				{"profile with too few partitions refused", reservedRefused},
				{"broken edit keeps services confined", reservedBroken},
				{"confinement restored after generator failure", generatorFails},
				{"leases confined to their partitions", leasesGiven},
				{"leases for unusual callers and commands", leasesOdd},
				{"callers identified before a move", callersIdentified},
				{"command arguments hidden", commandsHidden},
				{"attacks of a user limited", attacksBounded},
				{"no command fails during daemon restarts", daemonComesBack},
				{"no request fails during daemon-reexecs", reexecsOutlasted},
				{"lease ends with its service", leaseOfAService},
				{"exit statuses as documented", exitStatuses},
				{"usage visible to all users", usageSeen},
				{"leases survive kills", leasesLast},
				{"earlier openers of partitions named", exclusiveNamed},
				{"lease keeps its slice's limits", limitsKept},
				{"dcm.slice stopped", sliceStopped},
				{"allocations survive kills and reboot", heldThrough},
				{"shared partitions and their limits", shared},
				{"removed reservation releases its unit", reservedReleased},
				{"guard switched off and removed", guardOff},
			} {
				t.Run(s.name, func(t *testing.T) { s.run(m.in(t)) })
			}
		})
	}
}

// driverless returns an early unit that replaces the simulator's files in /dev, which are no
// device nodes, by nodes without a driver.
func driverless() e2e.Seed {
	seed := early("e2e-devices", "", "e2e-node.service", `#!/bin/sh
umount /dev/dri; umount /dev/kfd; rm -f /dev/kfd; mknod -m 666 /dev/kfd c 511 0
for i in $(seq 128 191); do mknod -m 666 /dev/dri/renderD$i c 226 $i; mknod -m 666 /dev/dri/card$((i-128)) c 226 $((i-128)); done
mkdir -p /sys/fs/bpf; mount -t bpf bpf /sys/fs/bpf
`)
	seed["/usr/local/bin/gpu-client"] = e2e.File{Content: []byte("#!/bin/sh\nexec sleep infinity\n"), Mode: 0o755}
	return seed
}

// early returns a unit that runs a script at every boot before dcm's units, and enables device
// programs. condition is a line of the unit, or "".
func early(name, condition, after, script string) e2e.Seed {
	return e2e.Seed{
		e2e.DevicePrograms:             {},
		"/usr/local/lib/e2e-container": contained(),
		"/usr/local/lib/" + name:       {Mode: 0o755, Content: []byte(script)},
		"/etc/systemd/system/" + name + ".service": {Content: []byte(`[Unit]
DefaultDependencies=no
` + condition + `Requires=e2e-node.service
After=` + after + `
Before=sysinit.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/lib/` + name + `
`)},
		"/etc/systemd/system/sysinit.target.wants/" + name + ".service": {Link: "../" + name + ".service"},
	}
}

// contained is a program that opens nodes in an unconfined container. It makes the nodes
// itself, with the device numbers of the named ones.
func contained() e2e.File {
	return e2e.File{Mode: 0o755, Content: []byte(`#!/bin/sh
[ "$(cat /proc/1/comm)" != systemd ] || exec systemd-run --quiet --pipe --wait --collect --slice=machine.slice --property=Delegate=yes unshare --mount --mount-proc --uts --ipc --net --pid --fork --cgroup "$0" $(stat --format='0x%t 0x%T' "$@")
mount -t tmpfs none /run
while [ $# -gt 0 ]; do
	mknod /run/node c "$1" "$2"
	case $( (exec 3<>/run/node) 2>&1) in
	*"No such device"*) echo yes ;;
	*"not permitted"*) echo no ;;
	*) echo "?" ;;
	esac
	rm /run/node
	shift 2
done
`)}
}

// opens returns the result of opening each node in the cgroup of a unit. The unit "" is a
// shell of root, "container" is one in its own namespaces.
func (m machine) opens(unit string, nodes ...string) string {
	m.t.Helper()
	if unit == "container" {
		return strings.Join(strings.Fields(m.run(`/usr/local/lib/e2e-container "$@"`, nodes...)), " ")
	}
	out := m.run(`[ -z "$1" ] || echo $$ >"/sys/fs/cgroup$(systemctl show -P ControlGroup "$1")/cgroup.procs"; shift
		for node; do
			case $( (exec 3<>"$node") 2>&1) in
			*"No such device"*) echo yes ;;
			*"not permitted"*) echo no ;;
			*) echo "?" ;;
			esac
		done`, append([]string{unit}, nodes...)...)
	return strings.Join(strings.Fields(out), " ")
}

// grabs starts a user's process that opens nodes repeatedly. The returned function ends it
// and returns the nodes that opened.
func (m machine) grabs(nodes ...string) func() []string {
	m.t.Helper()
	m.run(`rm -f /run/grabbed; touch /run/grabbed; chown nobody /run/grabbed
		systemd-run --quiet --collect --unit=grabber --property=User=nobody e2e-agent grab /run/grabbed "$@"`, nodes...)
	m.await("/run/grabbed", "ready")
	return func() []string {
		m.t.Helper()
		m.run("systemctl stop grabber")
		m.await("/run/grabbed", "rounds")
		return slices.DeleteFunc(strings.Fields(m.run("grep ^/dev /run/grabbed || :")), func(word string) bool { return word == "" })
	}
}

// opensFor returns the condition that a shell of root can open a node.
const opensFor = `(exec 3<>"$1") 2>&1 | grep -q "No such device"`

// mine returns the nodes that the links of a reservation lead to.
func (m machine) mine(name string) []string {
	m.t.Helper()
	return strings.Fields(m.run(`for link in /dev/dcm/"$1"/render*; do readlink "$link"; done`, name))
}

func (m machine) reserve(profile string, beta int) {
	m.t.Helper()
	m.put(settings, fmt.Sprintf(reserving, profile, beta))
}

// confinedTo expects that the three services can open only their own partitions, and that no
// other process can open those of alpha and gamma. leased are the nodes of exclusive leases.
func (m machine) confinedTo(alpha, beta int, leased ...string) {
	m.t.Helper()
	a, b := m.mine("alpha"), m.mine("beta-1")
	c := m.mine("gamma")
	if len(a) != alpha || len(b) != beta || len(c) != 1 {
		m.t.Fatalf("alpha has %s, beta@1 %s and gamma %s, want %d, %d and 1", a, b, c, alpha, beta)
	}
	free := m.run(`for i in $(seq 128 191); do echo /dev/dri/renderD$i; done | grep -vxF "$1" | head -1`, strings.Join(slices.Concat(a, b, c, leased), "\n"))
	yes, no := strings.Repeat("yes ", 64), strings.Repeat("no ", 64)
	for _, o := range []struct {
		unit  string
		nodes []string
		want  string
	}{
		{"alpha.service", a, yes}, {"alpha.service", b, no}, {"alpha.service", []string{free}, no}, {"alpha.service", []string{"/dev/kfd"}, yes},
		{"beta@1.service", b, yes}, {"beta@1.service", a, no},
		{"gamma.service", c, yes}, {"gamma.service", a, no}, {"gamma.service", b, no}, {"alpha.service", c, no}, {"beta@1.service", c, no},
		{"gpuagent.service", a, no}, {"gpuagent.service", b, yes}, {"gpuagent.service", []string{free}, yes}, {"gpuagent.service", c, no},
		{"", a, no}, {"", b, yes}, {"", c, no},
		{exporter, slices.Concat(a, b, c, []string{free}), yes}, // an observer
		{"container", slices.Concat(a, c), no}, {"container", slices.Concat(b, []string{free}), yes},
	} {
		want := strings.Join(strings.Fields(o.want)[:len(o.nodes)], " ")
		if got := m.opens(o.unit, o.nodes...); got != want {
			m.t.Errorf("%q opens %s: %s, want %s", o.unit, o.nodes, got, want)
		}
	}
}

func reservedConfined(m machine) {
	m.reserve("cpx-fast", 1)
	m.run("systemctl restart dcm")
	// The guard closes exclusive partitions before their unit is started.
	m.await("/run/dcm/guard.json", `"loaded": true`)
	if got := m.opens("", m.mine("alpha")...); got != "no no" {
		m.t.Errorf("nodes of alpha before its start, opened by root: want none, got %s", got)
	}
	m.run("systemctl start alpha beta@1 gamma; systemctl restart amd-metrics-exporter")
	m.confinedTo(2, 1)
	if got := m.show("alpha.service", "Slice")["Slice"]; got != "dcm-alpha.slice" {
		m.t.Errorf("slice of alpha: got %s", got)
	}
	p := decode[runstate.Partitions](m, "partitions.json")
	if len(p.Parts) != 64 || len(p.Reservations) != 3 {
		m.t.Errorf("partitions.json: want 64 and three reservations, got %d and %+v", len(p.Parts), p.Reservations)
	}
	spec := m.run("cat /run/cdi/dcm.json")
	for _, name := range []string{`"reservation-alpha"`, `"0000:05:00.0-3"`, `"all"`} {
		if !strings.Contains(spec, name) {
			m.t.Errorf("CDI file: want device %s", name)
		}
	}
	m.run("systemctl daemon-reexec")
	m.confinedTo(2, 1)
	// KFD shows a partition to a process that can open its node. char-drm in DeviceAllow= of
	// the daemon has no effect here, because no DRM driver is loaded.
	mine := m.mine("alpha")
	m.run(`systemctl set-property --runtime dcm DeviceAllow="$1 rw" DeviceAllow="$2 rw"`, mine...)
	if got := m.opens("dcm.service", mine...); got != "yes yes" {
		m.t.Errorf("guarded nodes opened by dcm.service: want both, got %s", got)
	}
	m.run("systemctl revert dcm; systemctl restart dcm")
}

func reservedFollow(m machine) {
	before := m.units("alpha.service", "beta@1.service", "gamma.service", agentUnit, exporter)
	m.reserve("qpx-fast", 1)
	// Partitions that are exclusive before and after a change stay closed during it.
	stays := slices.Concat(m.mine("alpha"), m.mine("gamma"))
	grabbed := m.grabs(stays...)
	m.run("dcm apply")
	stays = slices.DeleteFunc(stays, func(node string) bool {
		return !slices.Contains(slices.Concat(m.mine("alpha"), m.mine("gamma")), node)
	})
	if opened := grabbed(); len(stays) == 0 || slices.ContainsFunc(stays, func(node string) bool { return slices.Contains(opened, node) }) {
		m.t.Errorf("nodes opened by a user during a repartition: got %s, want none of %s", opened, stays)
	}
	m.bounced(before)
	m.confinedTo(2, 1)
	if p := decode[runstate.Partitions](m, "partitions.json"); len(p.Parts) != 32 {
		m.t.Errorf("listed are %d partitions, want 32", len(p.Parts))
	}
	m.reserve("cpx-fast", 1)
	m.run("dcm apply")
	m.confinedTo(2, 1)
	// After a failed run the holders keep the partitions that still exist.
	m.run("dcm-sim fault --gpu $(ls /sys/bus/pci/devices | tail -1) --op compute --errno EINVAL --times 3")
	m.reserve("qpx-fast", 1)
	if r := m.try("dcm apply"); r.Code == 0 {
		m.t.Errorf("dcm apply with a failing GPU: want a failure, got %s", r.Stdout)
	}
	m.confinedTo(2, 1)
	m.run("dcm-sim reset")
	m.reserve("cpx-fast", 1)
	m.run("dcm apply")
	m.confinedTo(2, 1)
}

func reservedAlone(m machine) {
	still, beta := m.units("alpha.service", "gamma.service", agentUnit, exporter), m.units("beta@1.service")
	had := m.mine("alpha")
	m.reserve("cpx-fast", 3)
	m.run("dcm apply")
	m.untouched(still)
	m.bounced(beta)
	m.confinedTo(2, 3)
	if now := m.mine("alpha"); strings.Join(now, " ") != strings.Join(had, " ") {
		m.t.Errorf("partitions of alpha: want %s, got %s", had, now)
	}
}

// reserveKills is the number of kills of dcm-reserve.service. After each, the test waits for the first
// delay of the back-off.
const reserveKills = 4

// reserveKilled: dcm-reserve.service is killed at random moments while a reservation grows and
// shrinks. The daemon runs it again, and the service gets its partitions.
func reserveKilled(m machine) {
	still := m.units("alpha.service", "gamma.service", agentUnit, exporter)
	hits := 0
	for i := range reserveKills {
		want := []int{5, 2}[i%2]
		m.reserve("cpx-fast", want)
		// Without --pid, systemctl kill fails if the process has just ended.
		r := m.try(fmt.Sprintf(`pid=$(timeout 20 %s) && sleep 0.0%02d && kill -KILL $pid`, waitFor(mainPID("dcm-reserve")), rand.IntN(60)))
		if r.Code == 0 {
			hits++
		}
		m.betaHas(want)
	}
	m.t.Logf("%d of %d kills hit the run", hits, reserveKills)
	// While it fails, the status reports a problem.
	m.put("/run/systemd/system/dcm-reserve.service.d/fails.conf", "[Service]\nExecStartPre=/bin/sh -c 'exit 75'\n")
	m.run("systemctl daemon-reload")
	m.reserve("cpx-fast", 4)
	why := []string{"dcm-reserve.service", "ExecStartPre=/bin/sh", "75"}
	m.await("/run/dcm/state.json", append(why, `"phase": "in-sync"`, `"retry"`)...)
	m.exits(2, "dcm status", why...)
	if m.account().Daemon.Retry.IsZero() {
		m.t.Error("dcm status --json: want the time of the next try")
	}
	m.run("rm -r /run/systemd/system/dcm-reserve.service.d; systemctl daemon-reload")
	m.betaHas(4)
	m.untouched(still)
	m.reserve("cpx-fast", 3)
	m.run("dcm apply")
	m.confinedTo(2, 3)
}

// betaHas waits until beta@1 is active with this many partitions and the daemon is idle.
func (m machine) betaHas(want int) {
	m.t.Helper()
	m.until(`ls /dev/dcm/beta-1; cat /run/dcm/state.json; systemctl is-active beta@1 && ! systemctl is-failed dcm-reserve && [ $(ls /dev/dcm/beta-1 | wc -l) = "$1" ] && ! grep -q -e owed -e '"error"' /run/dcm/state.json`, fmt.Sprint(want))
	mine := m.mine("beta-1")
	if got := m.opens("beta@1.service", mine...); got != strings.TrimSpace(strings.Repeat("yes ", want)) {
		m.t.Errorf("nodes %s opened by beta@1: want all, got %s", mine, got)
	}
}

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
		m.t.Logf("of %d nodes the user has opened %d, and the lease has %s%s", n, strings.Count(list, "opened"), r.Stdout, r.Stderr)
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

func reservedRefused(m machine) {
	before := m.units("alpha.service", "beta@1.service", agentUnit)
	m.reserve("spx-fast", 12)
	if r := m.try("dcm apply"); r.Code == 0 || !hasAll(r.Stderr, "15", "alpha 2", "beta-1 12", "gamma 1", "8") {
		m.t.Errorf("apply with 15 reserved of 8: want a failure with all reservations, got %d: %s", r.Code, r.Stderr)
	}
	m.untouched(map[string]string{"alpha.service": before["alpha.service"], agentUnit: before[agentUnit]})
	m.reserve("cpx-fast", 3)
	m.run("dcm apply")
	m.confinedTo(2, 3)
	misplaced(m)
}

// misplaced: an administrator sets another slice for a unit with a reservation.
func misplaced(m machine) {
	before := m.units("alpha.service", "beta@1.service", agentUnit)
	m.put("/etc/systemd/system/alpha.service.d/60-ml.conf", "[Service]\nSlice=ml.slice\n")
	m.run("systemctl daemon-reload")
	const misplaced = "alpha.service has Slice=ml.slice (/etc/systemd/system/alpha.service.d/60-ml.conf:2)"
	m.reserve("qpx-fast", 1)
	for _, command := range []string{"dcm check", "dcm plan", "dcm apply"} {
		if r := m.try(command); r.Code == 0 || !strings.Contains(r.Stdout+r.Stderr, misplaced) {
			m.t.Errorf("%s: want a failure with the drop-in, got %d, %s%s", command, r.Code, r.Stdout, r.Stderr)
		}
	}
	m.untouched(before)
	if r := m.try("systemctl restart alpha"); r.Code == 0 || m.show("alpha.service", "ActiveState")["ActiveState"] == "active" {
		m.t.Errorf("start of alpha in ml.slice: want a failure, got %s", r.Stderr)
	}
	m.put("/etc/systemd/system/alpha.service.d/60-ml.conf", "[Service]\nSlice=dcm-ml.slice\n")
	m.reserve("cpx-fast", 3)
	m.run("systemctl daemon-reload; dcm apply; systemctl start alpha")
	m.confinedTo(2, 3)
	if got := m.show("alpha.service", "Slice")["Slice"]; got != "dcm-ml.slice" {
		m.t.Errorf("slice of alpha: got %s", got)
	}
	m.run("rm -r /etc/systemd/system/alpha.service.d; systemctl daemon-reload; systemctl restart alpha")
	m.confinedTo(2, 3)
}

func reservedBroken(m machine) {
	m.put(settings, strings.Replace(fmt.Sprintf(reserving, "cpx-fast", 3), "[clients]", "[clients\n", 1))
	m.run("systemctl daemon-reload; systemctl restart alpha beta@1 gamma")
	m.confinedTo(2, 3)
	m.reserve("cpx-fast", 3)
	m.run("dcm apply")
}

func reservedReleased(m machine) {
	alpha, still := m.units("alpha.service"), m.units("beta@1.service", agentUnit)
	text := fmt.Sprintf(reserving, "cpx-fast", 3)
	i, j := strings.Index(text, "[[reservation]]\nunit = \"alpha\""), strings.Index(text, "[[reservation]]\nunit = \"beta@1\"")
	m.put(settings, text[:i]+text[j:])
	m.run("dcm apply")
	m.bounced(alpha)
	m.untouched(still)
	m.run("[ ! -e /dev/dcm/alpha ]")
	if got := m.opens("alpha.service", "/dev/dri/renderD128", "/dev/dri/renderD191"); got != "yes yes" {
		m.t.Errorf("nodes opened by alpha without a reservation: want all, got %s", got)
	}
	if got := m.opens("", "/dev/dri/renderD128"); got != "yes" {
		m.t.Errorf("released partition opened by root: want it open, got %s", got)
	}
}

// sliceStopped: dcm.slice gets a new cgroup when it is started again. The guard follows, also
// if the daemon is stopped.
func sliceStopped(m machine) {
	for _, daemon := range []string{"start", "stop"} {
		m.run("systemctl " + daemon + " dcm; systemctl stop dcm.slice; systemctl start alpha beta@1 gamma amd-metrics-exporter")
		m.confinedTo(2, 3)
	}
	// No unit is started in it: until then the partitions of a named reservation have no holder.
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

// reinstalled: the package is removed while services and a lease hold partitions, and installed
// again. Afterwards all of them are confined and shown as before.
func (m machine) reinstalled() {
	m.t.Helper()
	m.run("dpkg --install /root/dcm.deb")
	hers, roots := m.lent()
	m.run("dpkg --remove dcm && [ ! -e /run/dcm ] && dpkg --install /root/dcm.deb")
	if list := m.run("dcm partitions"); strings.Count(list, hers) != 3 || strings.Count(list, roots) != 1 || strings.Count(list, "alpha.service") != 2 {
		m.t.Errorf("dcm partitions after a reinstallation: want all holders, got\n%s", list)
	}
	m.run("systemctl start alpha beta@1 gamma; systemctl restart amd-metrics-exporter")
	m.confinedTo(2, 1, append(m.allowed(hers), m.allowed(roots)...)...)
	if r := m.try("dcm status"); r.Code != 0 {
		m.t.Errorf("dcm status after a reinstallation: want 0, got %d:\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	if got := m.opens("", m.allowed(roots)...); got != "no" {
		m.t.Errorf("exclusive node after a reinstallation, opened by root: want it closed, got %s", got)
	}
	m.run("systemctl stop 'dcm-*.scope'; dpkg --remove dcm")
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
