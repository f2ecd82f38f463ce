package e2e_test

import (
	"fmt"
	"strconv"
	"strings"
)

// overridden is the generator that systemd runs in place of the package's.
const overridden = "/etc/systemd/system-generators/dcm-generator"

// killableGenerator puts a generator in place of the package's that is killed while
// /run/e2e-kill is there.
func (m machine) killableGenerator() {
	m.t.Helper()
	m.run("mkdir -p /etc/systemd/system-generators")
	m.put(overridden, "#!/bin/sh\n[ ! -e /run/e2e-kill ] || kill -KILL $$\nexec /usr/lib/systemd/system-generators/dcm-generator \"$@\"\n")
	m.run("chmod 755 " + overridden)
}

// killing has the generator killed in all reloads during a script.
func killing(script string) string {
	return "touch /run/e2e-kill; " + script + "; rm /run/e2e-kill"
}

// generatorFails: a daemon-reload whose generator is killed or masked takes the drop-ins
// away. dcm has them loaded again, and restarts what was started without them and nothing
// else.
func generatorFails(m machine) {
	const prom = "/run/dcm/metrics/dcm.prom"
	m.reserve("cpx-fast", 3)
	m.run("mkdir -p /var/lib/prometheus/node-exporter /etc/systemd/system-generators; systemctl restart dcm")
	units := []string{"alpha.service", "beta@1.service", "gamma.service", agentUnit}
	before := m.units(units...)

	m.killableGenerator()
	m.run(killing("systemctl daemon-reload"))
	m.run("timeout 60 sh -c 'until systemctl show -P DevicePolicy gamma | grep -q closed; do :; done'")
	m.untouched(before)
	m.confinedTo(2, 3)

	m.run("rm " + overridden + "; ln -s /dev/null " + overridden + "; systemctl daemon-reload")
	m.await(prom, "dcm_units_unconfined 3", `dcm_health_info{state="unconfined"} 1`)
	r := m.try("dcm status")
	for _, text := range []string{
		"alpha.service is not confined to its partitions: Slice=system.slice, want dcm-alpha.slice; DevicePolicy=auto, want closed",
		"beta@1.service is not confined", "gamma.service is not confined",
		"systemd has not loaded dcm's drop-ins for alpha.service, ", "dcm requests the next daemon-reload at ",
	} {
		if r.Code != 2 || !strings.Contains(r.Stdout, text) {
			m.t.Errorf("with the generator masked dcm status exits %d and does not show %q:\n%s", r.Code, text, r.Stdout)
		}
	}
	if text := m.try("dcm status --json").Stdout; !strings.Contains(text, `"state": "unconfined"`) {
		m.t.Errorf("with the generator masked dcm status --json is\n%s", text)
	}
	// Reloads that others request, in vain, are no cause for more of dcm's.
	m.run("systemctl restart alpha; for i in $(seq 10); do systemctl daemon-reload; done")
	count := strings.TrimSpace(m.run("journalctl --sync; journalctl --boot --quiet --unit=dcm --grep='requesting a daemon-reload' -o cat | wc -l"))
	if n, err := strconv.Atoi(count); err != nil || n < 2 || n > 6 {
		m.t.Errorf("dcm requested %s reloads, want at most one a loss and those of the back-off", count)
	}
	// Neither are passes of the daemon, of which one may notice the loss itself.
	cursor := m.run("journalctl --sync; journalctl --lines=0 --show-cursor --quiet | sed 's/^-- cursor: //'")
	for i := range 5 {
		m.put(settings, strings.Repeat("# an edit\n", i+1)+fmt.Sprintf(reserving, "cpx-fast", 3))
		m.await("/run/dcm/state.json", fmt.Sprintf(`"%s:%d"`, settings, i+2), `"phase": "in-sync"`)
	}
	m.reserve("cpx-fast", 3)
	log := strings.TrimSpace(m.run("journalctl --sync; journalctl --after-cursor=$1 --quiet --unit=dcm --grep='^reloading systemd' -o cat || :", cursor))
	if strings.Contains(log, "\n") || log != "" && !strings.Contains(log, "drop-ins differ from the configuration: alpha.service, ") {
		m.t.Errorf("passes of the daemon request reloads with the generator masked:\n%s", log)
	}
	unconfined := m.units("alpha.service")
	m.run("rm " + overridden)
	m.await(prom, "dcm_units_unconfined 0")
	m.rested("alpha.service")
	m.bounced(unconfined)
	delete(before, "alpha.service")
	m.untouched(before)
	m.confinedTo(2, 3)
	if log = m.run("journalctl --sync; journalctl --boot --unit=dcm --grep='^restarting alpha.service: it was started without' -o cat"); !strings.Contains(log, "/system.slice/alpha.service") {
		m.t.Errorf("the journal says of the restart %q", log)
	}
	if r := m.try("dcm status"); r.Code != 0 {
		m.t.Errorf("after the repair dcm status exits %d:\n%s", r.Code, r.Stdout)
	}
	listsChanged(m)
}

// listsChanged: what an administrator adds to a device list is shown, and is not changed.
func listsChanged(m machine) {
	m.run(`rm -f /run/roots; setsid dcm run -- sh -c 'echo held >/run/roots; exec sleep infinity' >/dev/null 2>&1 </dev/null &`)
	m.await("/run/roots", "held")
	lease := m.run("systemctl list-units --plain --no-legend 'dcm-lease-*.scope' | cut -d' ' -f1")
	m.put("/etc/systemd/system/alpha.service.d/60-more.conf", "[Service]\nDeviceAllow=/dev/fuse rw\nDeviceAllow=/dev/dri/renderD191 rw\n")
	before := m.units("alpha.service", "beta@1.service", "gamma.service")
	m.run(`systemctl daemon-reload; systemctl set-property --runtime gamma DeviceAllow="char-drm rw"; systemctl set-property --runtime "$1" DevicePolicy=auto`, lease)
	r := m.try("dcm status")
	for _, text := range []string{
		"alpha.service is not confined to its partitions: DeviceAllow=/dev/dri/renderD191, which is not reserved for it\n",
		"gamma.service is not confined to its partitions: DeviceAllow=char-drm, which is not reserved for it\n",
		lease + " is not confined to its partitions: DevicePolicy=auto, want closed\n", "dcm release " + lease,
		"but 3 units are not confined to their partitions",
	} {
		if r.Code != 2 || !strings.Contains(r.Stdout, text) {
			m.t.Errorf("with lists that were changed dcm status exits %d and does not show %q:\n%s", r.Code, text, r.Stdout)
		}
	}
	m.untouched(before)
	m.run(`rm -r /etc/systemd/system/alpha.service.d; systemctl revert gamma; dcm release "$1"; systemctl daemon-reload; systemctl restart alpha gamma`, lease)
	m.confinedTo(2, 3)
	if r := m.try("dcm status"); r.Code != 0 {
		m.t.Errorf("with the lists put right dcm status exits %d:\n%s", r.Code, r.Stdout)
	}
}
