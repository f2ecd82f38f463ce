package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"dcm/internal/engine/runstate"
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
				{"partitions cleaned after leases", cleanedAfterLease},
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
	m.until(`ls /dev/dcm/beta-1; cat /run/dcm/state.json; systemctl is-active beta@1 && ! systemctl is-failed dcm-reserve && [ $(ls /dev/dcm/beta-1 | wc -l) = "$1" ] && ! grep -q -e pending_starts -e '"error"' /run/dcm/state.json`, fmt.Sprint(want))
	mine := m.mine("beta-1")
	if got := m.opens("beta@1.service", mine...); got != strings.TrimSpace(strings.Repeat("yes ", want)) {
		m.t.Errorf("nodes %s opened by beta@1: want all, got %s", mine, got)
	}
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
