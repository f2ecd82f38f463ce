package vm_test

const (
	// twoWorkers declares a worker for each of two GPUs.
	twoWorkers = `profile = "same"
[apply]
unit-of-change = "gpu"
[[client]]
unit = "worker@0"
gpus = [0]
[[client]]
unit = "worker@1"
gpus = [1]
[profiles.same]
memory = "NPS1"
compute = "SPX"
[profiles.both]
memory = "NPS1"
compute = "CPX"
[profiles.second]
memory = "NPS1"
[[profiles.second.group]]
compute = "CPX"
gpus = [1]
[[profiles.second.group]]
compute = "SPX"
count = "rest"
`
	failCompute = 0x44 // register: errno of the next write of a compute mode
	oneOfTwoCPX = "1 CPX 2 NPS1 1 SPX"
)

// firstChange: dcm-apply.service has not run, as after an installation without a reboot, and clients come to
// require it. The daemon starts it and restarts no unit, and the first change restarts the worker of its GPU.
func firstChange(m machine) {
	m.run("systemctl disable --now " + clients + "; systemctl reset-failed")
	m.put("/etc/systemd/system/worker@.service", worker)
	m.put("/etc/dcm/dcm.toml", twoWorkers)
	m.run("systemctl daemon-reload; systemctl restart dcm; systemctl stop dcm-apply; systemctl start worker@0 worker@1")
	before := m.services([]string{"worker@0", "worker@1"})
	m.expect("systemctl is-active dcm-apply || :", "inactive")
	m.put("/etc/dcm/dcm.toml", twoWorkers+"[clients]\nrequire = true\n")
	m.run("systemctl reload dcm")
	m.expect("systemctl is-active dcm-apply", "active")
	for unit, now := range m.services([]string{"worker@0", "worker@1"}) {
		if now != before[unit] {
			m.t.Errorf("%s before:\n%s\nafter the start of dcm-apply.service:\n%s", unit, before[unit], now)
		}
	}
	m.keeps("second", "worker@1", []string{"worker@0"})
	m.expect(modes, oneOfTwoCPX)
	m.expect("systemctl --failed --quiet --plain --no-legend", "")
}

// heldAndFailed: GPU 1 fails permanently, while a process holds GPU 0. When the process has ended, GPU 0
// changes, and GPU 1 stays as it is until a command requests a run.
func heldAndFailed(m machine) {
	m.run("systemctl disable --now " + clients + "; systemctl reset-failed")
	m.put("/etc/systemd/system/worker@.service", worker)
	m.put("/etc/dcm/dcm.toml", twoWorkers)
	m.run("systemctl daemon-reload; systemctl restart dcm; systemctl start worker@1")
	m.run(`systemd-run --quiet --unit=training sh -c "exec 3<>/dev/dri/renderD128; touch /run/held; sleep infinity & wait"`)
	m.await("/run/held", "")
	m.register("0000:26:00.0", failCompute, 22)
	if r := m.try("dcm use both"); r.Code != 1 {
		m.t.Errorf("change with a GPU that fails: found exit status %d, want 1\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	before := m.services([]string{"worker@1"})
	m.run(`systemctl stop training; e2e-agent await-command '[ "$(ls /dev/dcm/worker-0 | wc -l)" = 8 ]'`)
	m.await("/run/dcm/state.json", `"phase": "failed"`)
	m.expect(modes, oneOfTwoCPX)
	if now := m.services([]string{"worker@1"}); now["worker@1"] != before["worker@1"] {
		m.t.Errorf("worker@1 before:\n%s\nafter the end of the holder of GPU 0:\n%s", before["worker@1"], now["worker@1"])
	}
	m.run("dcm apply")
	m.expect(modes, "2 CPX 2 NPS1")
	m.expect("systemctl --failed --quiet --plain --no-legend", "")
}
