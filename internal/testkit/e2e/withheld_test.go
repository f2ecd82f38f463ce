package e2e_test

import "strings"

// requiredGPUFails: with require = true the worker of a GPU that failed does not start, and the observer,
// which uses all GPUs. The others continue, or are back if their GPU has changed. When the fault is gone,
// all start.
func requiredGPUFails(m machine) {
	before := m.run("cat " + settings)
	m.put(settings, eachGPU("same")+"[apply]\nunit-of-change = \"gpu\"\n[clients]\nrequire = true\n"+split("five", 5)+split("pair", 4, 5))
	m.run("systemctl reload dcm; dcm use same; systemctl start dcm-apply") // without a reboot, it may not have run yet
	m.rested("watcher.service")

	kept, affected := m.units(workers(5)...), m.units("worker@5.service", "watcher.service")
	m.failsFifth("five")
	m.untouched(kept)
	m.run("dcm apply")
	m.rested("worker@5.service", "watcher.service")
	m.untouched(kept)
	m.bounced(affected)
	m.exits(0, "dcm status")

	m.run("dcm use same")
	m.rested("worker@5.service", "watcher.service")
	kept, affected = m.units(workers(4, 5)...), m.units("worker@4.service")
	m.failsFifth("pair")
	m.untouched(kept)
	m.bounced(affected)
	m.run("dcm use none")
	m.rested("worker@5.service", "watcher.service")
	m.run("systemctl is-active worker@5 watcher && ! test -e /run/dcm/withheld")
	m.put(settings, before+"\n")
	m.run("systemctl reload dcm; dcm use same; dcm apply --clear")
}

// failsFifth selects a profile that changes GPU 5, which fails.
func (m machine) failsFifth(profile string) {
	m.t.Helper()
	m.run("dcm-sim fault --gpu 0000:a6:00.0 --op compute --errno EINVAL")
	m.exits(1, "dcm use "+profile)
	for _, unit := range []string{"worker@5.service", "watcher.service"} {
		if s := m.show(unit, "ActiveState", "AssertResult"); s["ActiveState"] != "inactive" || s["AssertResult"] != "no" {
			m.t.Errorf("%s: want inactive with a failed assertion, got %v", unit, s)
		}
		if r := m.try("systemctl start " + unit); r.Code == 0 || !strings.Contains(r.Stdout+r.Stderr, "Assertion failed") {
			m.t.Errorf("start of %s: want a failed assertion, got %d: %s%s", unit, r.Code, r.Stdout, r.Stderr)
		}
	}
}
