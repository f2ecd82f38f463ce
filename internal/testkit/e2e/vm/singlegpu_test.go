package vm_test

import (
	"fmt"
	"strings"
)

// worker opens a partition of its GPU and /dev/kfd, which attaches it to this GPU. It does not execute another
// program afterwards: KFD detaches a process at the end of its address space.
const worker = `[Service]
ExecStart=sh -c 'exec 3</dev/dcm/worker-%i/render0 4</dev/kfd; touch /run/worker-%i; sleep infinity & wait'
`

// eachGPU declares a worker for each of eight GPUs.
func eachGPU() string {
	text := "profile = \"same\"\n"
	for i := range 8 {
		text += fmt.Sprintf("[[client]]\nunit = \"worker@%d\"\ngpus = [%[1]d]\n", i)
	}
	return text + `[profiles.same]
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
}

const (
	oneCPX   = "1 CPX 8 NPS1 7 SPX"
	noCPX    = "8 NPS1 8 SPX"
	checked  = `grep -o '"check":"[a-z]*"' /run/dcm/modes/busy-check.json || :`
	attached = `cd /sys/class/kfd/kfd/proc/$(systemctl show --property=MainPID --value worker@%d) && ls -d vram_* | wc -l`
)

// singleGPU: a change of GPU 3 restarts its worker alone if the driver checks the processes on this GPU. If
// the driver checks all GPUs, the first change finds that out, and each change restarts all workers.
func singleGPU(m machine) {
	m.run("systemctl disable --now " + clients + "; systemctl reset-failed")
	m.put("/etc/systemd/system/worker@.service", worker)
	m.put("/etc/dcm/dcm.toml", eachGPU())
	m.run("systemctl daemon-reload; systemctl restart dcm; for i in 0 1 2 3 4 5 6 7; do systemctl start worker@$i; done")
	for i := range 8 {
		m.await(fmt.Sprintf("/run/worker-%d", i), "")
		m.expect(fmt.Sprintf(attached, i), "1")
	}
	m.expect(modes, noCPX)

	m.keeps("third", 3)
	m.expect(modes, oneCPX)
	m.expect(checked, `"check":"gpu"`)
	m.expect(fmt.Sprintf(attached, 3), "8")
	m.expect("ls /dev/dcm/worker-3 | wc -l; ls /dev/dcm/worker-4 | wc -l", "8\n1")
	m.keeps("same", 3)
	m.expect(modes, noCPX)

	m.run("echo 1 >/sys/module/amdgpu/parameters/check_all_gpus && rm /run/dcm/modes/busy-check.json")
	before := m.workers()
	r := m.try("dcm use third")
	m.t.Logf("older check: exit status %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	m.run("dcm apply")
	m.expect(modes, oneCPX)
	m.expect(checked, `"check":"node"`)
	m.restarted(before)
	before = m.workers()
	m.use("same")
	m.expect(modes, noCPX)
	m.restarted(before)
	m.expect("systemctl --failed --quiet --plain --no-legend", "")
}

// workers returns the invocation, the main process and the open files of each worker.
func (m machine) workers() (of [8]string) {
	m.t.Helper()
	for i := range of {
		m.run(`e2e-agent await-command 'systemctl is-active --quiet "$1" && [ "$(ls /dev/dcm/worker-$2 | wc -l)" -gt 0 ] && ls -l /proc/$(systemctl show --property=MainPID --value "$1")/fd | grep -q /dev/kfd' "$1" "$2"`, fmt.Sprintf("worker@%d.service", i), fmt.Sprint(i))
		of[i] = m.run(`systemctl show --property=ActiveState,InvocationID,MainPID "$1"; cd /proc/$(systemctl show --property=MainPID --value "$1")/fd && for f in *; do echo "$f $(readlink $f)"; done`, fmt.Sprintf("worker@%d.service", i))
	}
	return of
}

// keeps selects a profile and expects that it restarts the worker of one GPU only.
func (m machine) keeps(profile string, gpu int) {
	m.t.Helper()
	before := m.workers()
	cursor := m.run(`journalctl --quiet --lines=1 --output=cat --show-cursor | sed -n 's/^-- cursor: //p'`)
	m.use(profile)
	after := m.workers()
	for i := range before {
		unit := fmt.Sprintf("worker@%d.service", i)
		entries := m.run(`journalctl --quiet --after-cursor="$1" _PID=1 UNIT="$2" --output=cat`, cursor, unit)
		switch {
		case i == gpu && (before[i] == after[i] || entries == ""):
			m.t.Errorf("%s was not restarted:\n%s", unit, after[i])
		case i != gpu && (before[i] != after[i] || entries != ""):
			m.t.Errorf("%s is of another GPU; before:\n%s\nafter:\n%s\njournal:\n%s", unit, before[i], after[i], entries)
		}
	}
}

// restarted expects that all workers were restarted.
func (m machine) restarted(before [8]string) {
	m.t.Helper()
	for i, now := range m.workers() {
		if now == before[i] || !strings.Contains(now, "/dev/kfd") {
			m.t.Errorf("worker %d was not restarted:\n%s", i, now)
		}
	}
}
