package e2e_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"dcm/internal/frontends/status"
)

// overridden is the path of a generator that takes precedence over the package's.
const overridden = "/etc/systemd/system-generators/dcm-generator"

// killableGenerator overrides the package's generator by one that kills itself while
// /run/e2e-kill exists.
func (m machine) killableGenerator() {
	m.t.Helper()
	m.run("mkdir -p /etc/systemd/system-generators")
	m.put(overridden, "#!/bin/sh\n[ ! -e /run/e2e-kill ] || kill -KILL $$\nexec /usr/lib/systemd/system-generators/dcm-generator \"$@\"\n")
	m.run("chmod 755 " + overridden)
}

// killing runs a script, during which each run of the generator is killed.
func killing(script string) string {
	return "touch /run/e2e-kill; " + script + "; rm /run/e2e-kill"
}

// generatorFails: after a daemon-reload with a killed or masked generator the drop-ins are
// missing. dcm reloads systemd, and restarts only the units that were started without them.
func generatorFails(m machine) {
	const prom = "/run/dcm/metrics/dcm.prom"
	m.reserve("cpx-fast", 3)
	m.run("mkdir -p /var/lib/prometheus/node-exporter /etc/systemd/system-generators; systemctl restart dcm")
	units := []string{"alpha.service", "beta@1.service", "gamma.service", agentUnit}
	before, others := m.units(units...), len(m.reloads(true))

	m.killableGenerator()
	m.run(killing("systemctl daemon-reload"))
	m.until("systemctl show -P DevicePolicy gamma | grep -q closed")
	// The properties are right a moment before the cgroups are.
	alpha, beta := m.mine("alpha"), m.mine("beta-1")
	for unit, node := range map[string]string{"alpha.service": beta[0], "beta@1.service": alpha[0], "gamma.service": alpha[0]} {
		m.until(`echo $$ >"/sys/fs/cgroup$(systemctl show -P ControlGroup "$2")/cgroup.procs"; ! { `+opensFor+`; }`, node, unit)
	}
	m.untouched(before)
	m.confinedTo(2, 3)

	m.run("rm " + overridden + "; ln -s /dev/null " + overridden + "; systemctl daemon-reload")
	m.await(prom, "dcm_units_unconfined 3", `dcm_health_info{state="unconfined"} 1`)
	a := m.healthIs(status.Open, "alpha.service", "Slice=system.slice", "dcm-alpha.slice", "DevicePolicy=auto")
	if got := m.unconfined(a); !slices.Equal(got, []string{"alpha.service", "beta@1.service", "gamma.service"}) {
		m.t.Errorf("unconfined with the generator masked: want the three services, got %q", got)
	}
	m.exits(2, "dcm status", "daemon-reload")
	// A failed daemon-reload of another process does not cause one by dcm.
	m.run("systemctl restart alpha; for i in $(seq 10); do systemctl daemon-reload; done")
	m.backedOff(m.reloads(true)[others:])
	// A pass of the daemon causes none either, although it may detect the loss.
	earlier := len(m.reloads(false))
	for i := range 5 {
		m.put(settings, strings.Repeat("# an edit\n", i+1)+fmt.Sprintf(reserving, "cpx-fast", 3))
		m.await("/run/dcm/state.json", fmt.Sprintf(`"%s:%d"`, settings, i+2), `"phase": "in-sync"`)
	}
	m.reserve("cpx-fast", 3)
	if all := m.reloads(false)[earlier:]; len(all) > 1 || len(all) == 1 && !all[0].has("DCM_UNITS", "alpha.service") {
		m.t.Errorf("daemon-reloads by the reconciler with the generator masked: want at most one, for alpha.service, got %v", all)
	}
	unconfined := m.units("alpha.service")
	m.run("rm " + overridden)
	m.await(prom, "dcm_units_unconfined 0")
	m.rested("alpha.service")
	m.bounced(unconfined)
	delete(before, "alpha.service")
	m.untouched(before)
	m.confinedTo(2, 3)
	reason := ""
	for _, e := range m.entries("--unit=dcm DCM_UNIT=alpha.service") {
		if text, ok := e["DCM_REASON"].(string); ok {
			reason = text
		}
	}
	if !strings.Contains(reason, "/system.slice/alpha.service") {
		m.t.Errorf("reason of the restart in the journal: want the cgroup /system.slice/alpha.service, got %q", reason)
	}
	m.exits(0, "dcm status")
	listsChanged(m)
}

// unconfined returns the names of the units that can open partitions of others.
func (m machine) unconfined(a status.Account) (units []string) {
	for _, u := range a.Unconfined {
		units = append(units, u.Unit)
	}
	slices.Sort(units)
	return units
}

// reloads returns the journal entries about daemon-reloads that dcm requested. With numbered, it returns
// the retries after a loss of drop-ins, which have the field of the try; otherwise the reloads by the
// reconciler.
func (m machine) reloads(numbered bool) []entry {
	m.t.Helper()
	return slices.DeleteFunc(m.entries("--unit=dcm"), func(e entry) bool {
		// An entry with the number of all tries says that dcm gives up.
		return e["DCM_UNITS"] == nil || e["DCM_TRIES"] != nil || (e["DCM_TRY"] != nil) != numbered
	})
}

// backedOff expects two losses of drop-ins, and twice the time between two daemon-reloads after each. The times are
// those of the kernel, which load does not delay.
func (m machine) backedOff(reloads []entry) {
	m.t.Helper()
	var losses int
	var before int64
	for _, e := range reloads {
		try, at := m.numberOf(e, "DCM_TRY"), m.numberOf(e, "_SOURCE_REALTIME_TIMESTAMP")
		if try == 1 {
			losses++
		} else if wait := (5 * time.Second << (try - 2)).Microseconds(); at-before < wait {
			m.t.Errorf("daemon-reload %d by dcm: want %d µs after the one before it, got %d", try, wait, at-before)
		}
		before = at
	}
	if losses != 2 {
		m.t.Errorf("daemon-reloads by dcm: want a first one for each of 2 losses, got %d", losses)
	}
}

// numberOf returns the value of a field with a number.
func (m machine) numberOf(e entry, field string) int64 {
	m.t.Helper()
	text, _ := e[field].(string) // a missing field is no number
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		m.t.Fatalf("field %s of the journal: %v", field, err)
	}
	return n
}

// listsChanged: dcm reports what an administrator adds to a device list, and does not change it.
func listsChanged(m machine) {
	m.run(`rm -f /run/roots; setsid dcm run -- sh -c 'echo held >/run/roots; exec sleep infinity' >/dev/null 2>&1 </dev/null &`)
	m.await("/run/roots", "held")
	lease := m.run("systemctl list-units --plain --no-legend 'dcm-lease-*.scope' | cut -d' ' -f1")
	m.put("/etc/systemd/system/alpha.service.d/60-more.conf", "[Service]\nDeviceAllow=/dev/fuse rw\nDeviceAllow=/dev/dri/renderD191 rw\n")
	before := m.units("alpha.service", "beta@1.service", "gamma.service")
	m.run(`systemctl daemon-reload; systemctl set-property --runtime gamma DeviceAllow="char-drm rw"; systemctl set-property --runtime "$1" DevicePolicy=auto`, lease)
	a := m.healthIs(status.Open)
	for _, u := range []struct{ unit, property, hint string }{
		{"alpha.service", "DeviceAllow=/dev/dri/renderD191", ""},
		{"gamma.service", "DeviceAllow=char-drm", ""},
		{lease, "DevicePolicy=auto", "dcm lease release " + lease},
	} {
		if !hasProblem(a, status.Open, u.unit, u.property, u.hint) {
			m.t.Errorf("problems with changed lists: want one with %+v, got %+v", u, a.Problems)
		}
		m.exits(2, "dcm status", u.unit, u.property, u.hint)
	}
	if hasProblem(a, status.Open, "/dev/fuse") {
		m.t.Errorf("problems with changed lists: want none about /dev/fuse, got %+v", a.Problems)
	}
	if n := len(a.Unconfined); n != 3 {
		m.t.Errorf("unconfined units: want 3, got %d", n)
	}
	m.untouched(before)
	m.run(`rm -r /etc/systemd/system/alpha.service.d; systemctl revert gamma; dcm lease release "$1"; systemctl daemon-reload; systemctl restart alpha gamma`, lease)
	m.confinedTo(2, 3)
	m.exits(0, "dcm status")
}
