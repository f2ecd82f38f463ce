package vm_test

import (
	"fmt"
	"maps"
	"slices"
)

// worker opens a partition of its GPU and /dev/kfd, which attaches it to this GPU. It does not execute another
// program afterwards: KFD detaches a process at the end of its address space.
const worker = `[Service]
ExecStart=sh -c 'exec 3</dev/dcm/worker-%i/render0 4</dev/kfd; touch /run/worker-%i; sleep infinity & wait'
`

// none is a number that no GPU has.
const none = -1

// eachGPU returns a configuration that selects the profile. It declares a worker for each of eight
// GPUs, except for the GPU without.
func eachGPU(profile string, without int) string {
	text := fmt.Sprintf("profile = %q\n", profile)
	for i := range 8 {
		if i != without {
			text += fmt.Sprintf("[[client]]\nunit = \"worker@%d\"\ngpus = [%[1]d]\n", i)
		}
	}
	return text
}

const thirdCPX = `[profiles.same]
memory = "NPS1"
compute = "SPX"
[profiles.third]
memory = "NPS1"
[[profiles.third.group]]
compute = "CPX"
gpus = [3]
[[profiles.third.group]]
compute = "SPX"
count = "rest"
`

const (
	oneCPX   = "1 CPX 8 NPS1 7 SPX"
	noCPX    = "8 NPS1 8 SPX"
	checked  = `grep -o '"fact": "[a-z]*"' /run/dcm/modes/busy-check.json || :`
	attached = `cd /sys/class/kfd/kfd/proc/$(systemctl show --property=MainPID --value %s) && ls -d vram_* | wc -l`
)

// singleGPU: a change of GPU 3 restarts its worker alone if the driver checks the processes on this GPU. If
// the driver checks all GPUs, the first change finds that out, and each change restarts all workers.
func singleGPU(m machine) {
	m.run("systemctl disable --now " + clients + "; systemctl reset-failed")
	m.put("/etc/systemd/system/worker@.service", worker)
	m.put("/etc/dcm/dcm.toml", eachGPU("same", none)+thirdCPX)
	m.run("systemctl daemon-reload; systemctl restart dcm; for i in 0 1 2 3 4 5 6 7; do systemctl start worker@$i; done")
	for i := range 8 {
		m.await(fmt.Sprintf("/run/worker-%d", i), "")
		m.expect(fmt.Sprintf(attached, fmt.Sprintf("worker@%d", i)), "1")
	}
	m.expect(modes, noCPX)

	m.keeps("third", "worker@3", workers(3))
	m.expect(modes, oneCPX)
	m.expect(checked, `"fact": "gpu"`)
	m.expect(fmt.Sprintf(attached, "worker@3"), "8")
	m.expect("ls /dev/dcm/worker-3 | wc -l; ls /dev/dcm/worker-4 | wc -l", "8\n1")
	m.keeps("same", "worker@3", workers(3))
	m.expect(modes, noCPX)

	m.run("echo 1 >/sys/module/amdgpu/parameters/check_all_gpus && rm /run/dcm/modes/busy-check.json")
	before := m.services(workers(none))
	r := m.try("dcm use third")
	m.t.Logf("older check: exit status %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	m.run("dcm apply")
	m.expect(modes, oneCPX)
	m.expect(checked, `"fact": "node"`)
	m.restarted(before)
	before = m.services(workers(none))
	m.use("same")
	m.expect(modes, noCPX)
	m.restarted(before)
	m.expect("systemctl --failed --quiet --plain --no-legend", "")
}

// workers returns the names of the workers, without the one of that GPU.
func workers(without int) (units []string) {
	for i := range 8 {
		if i != without {
			units = append(units, fmt.Sprintf("worker@%d", i))
		}
	}
	return units
}

// services returns the state, the invocation, the main process and the open files of each service that has its
// GPU open.
func (m machine) services(units []string) map[string]string {
	m.t.Helper()
	of := make(map[string]string)
	for _, unit := range units {
		m.run(`e2e-agent await-command 'systemctl is-active --quiet "$1" && readlink /proc/$(systemctl show --property=MainPID --value "$1")/fd/4 | grep -qx "/dev/kfd\|/dev/nvidiactl"' "$1"`, unit)
		of[unit] = m.run(`systemctl show --property=ActiveState,InvocationID,MainPID "$1"; cd /proc/$(systemctl show --property=MainPID --value "$1")/fd && for f in *; do echo "$f $(readlink $f)"; done`, unit)
	}
	return of
}

// keeps selects a profile and expects that it restarts one service, and leaves the others as they are.
func (m machine) keeps(profile, affected string, others []string) {
	m.t.Helper()
	all := append([]string{affected}, others...)
	before := m.services(all)
	cursor := m.cursor()
	m.use(profile)
	after := m.services(all)
	for _, unit := range all {
		entries := m.run(`journalctl --quiet --after-cursor="$1" _PID=1 UNIT="$2.service" --output=cat`, cursor, unit)
		switch {
		case unit == affected && (before[unit] == after[unit] || entries == ""):
			m.t.Errorf("%s was not restarted:\n%s", unit, after[unit])
		case unit != affected && (before[unit] != after[unit] || entries != ""):
			m.t.Errorf("%s is not affected; before:\n%s\nafter:\n%s\njournal:\n%s", unit, before[unit], after[unit], entries)
		}
	}
}

// restarted expects that all services were restarted.
func (m machine) restarted(before map[string]string) {
	m.t.Helper()
	for unit, now := range m.services(slices.Collect(maps.Keys(before))) {
		if now == before[unit] {
			m.t.Errorf("%s was not restarted:\n%s", unit, now)
		}
	}
}
