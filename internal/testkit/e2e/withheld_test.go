package e2e_test

import (
	"strings"

	"dcm/internal/engine/runstate"
)

// firstChange: after an installation without a reboot, dcm-apply.service has not run. With require = true the
// daemon starts it and restarts no unit, and the first change restarts only the worker of its GPU.
func firstChange(m machine) {
	if s := m.show("dcm-apply.service", "ActiveState"); s["ActiveState"] != "inactive" {
		m.t.Fatalf("dcm-apply.service before the first change: found %s, want inactive", s["ActiveState"])
	}
	before := m.run("cat " + settings)
	kept, affected := m.units(workers(5)...), m.units("worker@5.service", "watcher.service")
	m.put(settings, eachGPU("same")+"[apply]\nunit-of-change = \"gpu\"\n[clients]\nrequire = true\n"+split("five", 5))
	m.run("systemctl reload dcm; " + waitFor("systemctl is-active --quiet dcm-apply"))
	m.untouched(kept)
	m.untouched(affected)
	m.exits(0, "dcm use five")
	m.untouched(kept)
	m.bounced(affected)
	m.put(settings, before+"\n")
	m.run("systemctl reload dcm; dcm use same")
}

// heldAndFailed: GPU 5 fails permanently, while a process holds GPU 4. When the process has ended, GPU 4
// changes, and GPU 5 stays as it is until a command requests a run.
func heldAndFailed(m machine) {
	m.run("dcm use same")
	m.put(settings, eachGPU("same")+"[apply]\nunit-of-change = \"gpu\"\n"+split("three", 4, 5, 6))
	m.run("systemctl reload dcm; systemd-run --quiet --unit=holder --property=DeviceAllow= sh -c 'exec 3<'$(readlink -f /dev/dcm/worker-4/render0)'; exec sleep infinity'; " +
		waitFor("dcm holders | grep -q holder.service"))
	m.run("systemctl stop worker@4; dcm-sim fault --gpu 0000:a6:00.0 --op compute --errno EINVAL")
	m.exits(1, "dcm use three")
	kept := m.units(workers(4)...)
	m.run("systemctl stop holder; " + waitFor("[ $(ls /dev/dcm/worker-4 | wc -l) = 8 ]"))
	m.await("/run/dcm/state.json", `"phase": "failed"`)
	m.untouched(kept)
	if r := m.lastRun(); r.Result != runstate.Round || m.run("ls /dev/dcm/worker-5 | wc -l") != "1" {
		m.t.Errorf("run: want a round with GPU 4 alone, got %s, %+v", r.Result, r.GPUs)
	}
	m.run("systemctl start worker@4")
	kept, affected := m.units(workers(5)...), m.units("worker@5.service")
	m.run("dcm apply")
	m.untouched(kept)
	m.bounced(affected)
	m.exits(0, "dcm status")
}

// requiredGPUFails: with require = true the worker of a GPU that failed does not start, and the observer,
// which uses all GPUs. The others continue, or are back if their GPU has changed. When the fault is gone,
// all start.
func requiredGPUFails(m machine) {
	before := m.run("cat " + settings)
	m.put(settings, eachGPU("same")+"[apply]\nunit-of-change = \"gpu\"\n[clients]\nrequire = true\n"+split("five", 5)+split("pair", 4, 5))
	m.run("systemctl reload dcm; dcm use same; systemctl is-active dcm-apply")
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
	m.run("systemctl is-active worker@5 watcher && [ -z \"$(ls -A /run/dcm/withheld)\" ]")
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
