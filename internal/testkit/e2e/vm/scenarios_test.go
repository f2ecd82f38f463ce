package vm_test

import (
	"fmt"
	"strings"

	"dcm/internal/testkit/e2e/vm"
)

var twoGPUs, eightGPUs = vm.Options{GPUs: 2}, vm.Options{GPUs: 8}

// scenarios returns those of each run. Together they take less than 10 minutes on two processors that emulate
// the machines, if the cache has the disk and the booted machines.
func scenarios() []scenario {
	return []scenario{
		{"MIG after a reboot", nvidiaOptions, migReboot},
		{"power cuts in few phases", twoGPUs, func(m machine) { powerCuts(m, fewPhases()) }},
		{"flow", twoGPUs, flow},
		{"busy unload", twoGPUs, busyUnload},
		{"kexec", twoGPUs, kexecBoot},
		{"guard", twoGPUs, guard},
		{"first change", twoGPUs, firstChange},
		{"held and failed", twoGPUs, heldAndFailed},
		{"unbind and bind", twoGPUs, unbindAndBind},
		{"lease limits", twoGPUs, leaseLimits},
		{"soft-reboot", twoGPUs, softReboot},
		{"removed node", twoGPUs, removedNode},
		{"mapped memory", twoGPUs, mappedMemory},
		{"in flight", twoGPUs, inFlight},
		{"scattered minors", twoGPUs, scatteredMinors},
		{"systemd re-executed", twoGPUs, systemdReexecuted},
		{"false node", twoGPUs, falseNode},
	}
}

// longScenarios returns those that do not fit into the time of the others.
func longScenarios() []scenario {
	return []scenario{
		{"power cuts", twoGPUs, func(m machine) { powerCuts(m, phases()) }},
		{"hotplug in a change", twoGPUs, hotplugInChange},
		{"single NVIDIA GPU", vm.Options{GPUs: 8, Kernel: []string{"fakehive.nvidia=8"}}, singleNVIDIA},
		{"single GPU", eightGPUs, singleGPU},
		{"rolling MIG", nvidiaOptions, rollingMIG},
		{"MIG and holders", nvidiaOptions, migHolders},
		{"MIG and nvidia_drm", nvidiaOptions, migDRM},
		{"MIG devices", nvidiaOptions, migDevices},
		{"eight GPUs", eightGPUs, eightGPUsBoot},
		{"text console", twoGPUs, textConsole},
		{"reload by hand", twoGPUs, reloadByHand},
		{"AppArmor", vm.Options{GPUs: 2, Kernel: []string{"apparmor=1", "security=apparmor"}}, appArmor},
		{"lockdown", twoGPUs, lockdown},
		{"containers", twoGPUs, containers},
		{"Slurm", twoGPUs, slurmJobs},
	}
}

// special returns the scenarios of the guests that are made for one thing. They do not run on other guests,
// and other scenarios do not run on them.
func special() map[string][]scenario {
	return map[string][]scenario{
		"dmem":    {{"memory of shares", twoGPUs, sharedMemory}},
		"selinux": {{"SELinux", twoGPUs, seLinux}},
	}
}

const (
	modes = `cat /sys/bus/pci/drivers/amdgpu/0000:*/current_*_partition | sort | uniq -c | xargs`
	split = "2 CPX 2 NPS4"
	whole = "2 NPS1 2 SPX"

	// KFD releases the driver some time after the end of its last process.
	unloadDriver = "e2e-agent await-command 'modprobe -r amdgpu'"

	clients    = "amd-metrics-exporter gpuagent dashboard"
	allClients = "systemctl is-active " + clients + " | uniq -c | xargs"
	allActive  = "3 active"
)

// use selects a profile and returns when it is applied.
func (m machine) use(profile string) {
	m.t.Helper()
	m.run(`dcm use "$1"`, profile)
}

// await waits until a file of the guest contains all of the texts.
func (m machine) await(file string, texts ...string) {
	m.t.Helper()
	m.run(`e2e-agent await "$@"`, append([]string{file}, texts...)...)
}

// awaitEntry waits until the journal has an entry with the fields since the boot.
func (m machine) awaitEntry(fields ...string) {
	m.t.Helper()
	m.run(`exec bash -c 'read -r < <(journalctl --quiet --boot --follow --lines=all --output=cat "$@" 2>/dev/null)' follow "$@"`, fields...)
}

// flow tests the usual use: select a profile, restart dcm, reboot. KFD releases the clients some time after
// their end.
func flow(m machine) {
	m.expect(modes, whole)
	for _, gpu := range []string{"0000:05:00.0", "0000:26:00.0"} {
		m.register(gpu, teardownMS, 700)
	}
	for _, client := range []string{"amd-metrics-exporter", "gpuagent"} {
		m.run(`e2e-agent await-command '[ "$(` + fmt.Sprintf(attached, client) + `)" = 2 ]'`)
	}
	m.run(`sed -i '1i profile = "cpx-nps4"' /etc/dcm/dcm.toml && systemctl restart dcm`)
	m.expect(modes, split)
	m.run("systemctl is-active --wait " + clients)
	m.expect(allClients, allActive)
	m.must(m.Reboot)
	m.expect(modes, split)
	m.expect(allClients, allActive)
	for _, client := range []string{"amd-metrics-exporter", "gpuagent"} {
		m.after(client, "dcm-apply")
	}
	m.run("dcm verify cpx-nps4")
}

// after reports a unit that did not start after the other one.
func (m machine) after(unit, other string) {
	m.t.Helper()
	started := func(unit string) string {
		return m.run("systemctl show --property=ActiveEnterTimestampMonotonic --value " + unit + ".service")
	}
	if a, b := started(unit), started(other); len(a) < len(b) || len(a) == len(b) && a < b {
		m.t.Errorf("%s started at %s, before %s at %s", unit, a, other, b)
	}
}

// busyUnload: for each kind of use that keeps the module loaded, dcm names the user, stops no client, and
// makes the change when the use ends.
func busyUnload(m machine) {
	before := m.run("systemctl show --property=MainPID --value " + clients)
	for i, holder := range []struct{ name, open string }{
		{"kfd", "exec 3</dev/kfd"},
		{"renderD", "exec 3<>/dev/dri/renderD128"},
		{"card", "exec 3<>/dev/dri/card0"},
	} {
		m.run(`systemd-run --quiet --unit=training sh -c "$1; touch /run/held-$2; sleep infinity & wait"`, holder.open, holder.name)
		m.await("/run/held-"+holder.name, "")
		profile := []string{"cpx-nps4", "spx-nps1"}[i%2]
		if r := m.try(`dcm use "$1"`, profile); r.Code == 0 || !strings.Contains(r.Stderr, "training.service") {
			m.t.Errorf("%s: exit status %d, the holder is not named:\n%s", holder.name, r.Code, r.Stderr)
		}
		m.expect("systemctl show --property=MainPID --value "+clients, before)
		m.run("systemctl stop training")
		m.run("dcm use " + profile)
		m.expect(modes, []string{split, whole}[i%2])
		before = m.run("systemctl show --property=MainPID --value " + clients)
	}
}

// removedNode: a process that has a node open whose GPU was unbound and bound again holds the driver, although
// that node no longer exists.
func removedNode(m machine) {
	m.run("systemctl stop " + clients)
	m.run(`systemd-run --quiet --unit=training sh -c 'exec 3<>/dev/dri/renderD136; touch /run/held; exec sleep infinity'`)
	m.await("/run/held", "")
	pci := m.run(`basename $(readlink -f /sys/class/drm/renderD136/device)`)
	m.run(`cd /sys/bus/pci/drivers/amdgpu && echo "$1" >unbind && echo "$1" >bind`, pci)
	r := m.try("dcm holders --json")
	for _, want := range []string{"training.service", "/dev/dri/renderD136 (removed)"} {
		if !strings.Contains(r.Stdout, want) {
			m.t.Errorf("dcm holders does not name %s:\n%s%s", want, r.Stdout, r.Stderr)
		}
	}
	if r := m.try("dcm use cpx-nps4"); r.Code == 0 || !strings.Contains(r.Stderr, "training.service") {
		m.t.Errorf("change with a removed node open: exit status %d\n%s", r.Code, r.Stderr)
	}
	m.run("systemctl stop training")
	m.use("cpx-nps4")
	m.expect(modes, split)
}

// reloadByHand: after an administrator reloads the driver, the GPUs have their default mode until dcm repairs
// that.
func reloadByHand(m machine) {
	m.run(`printf '[profiles.split]\nmemory = "NPS1"\ncompute = "CPX"\n' >>/etc/dcm/dcm.toml`)
	m.use("split")
	m.expect(modes, "2 CPX 2 NPS1")
	m.run("systemctl stop " + clients)
	before := m.run("systemctl show --property=InvocationID --value dcm-apply")
	m.run(unloadDriver + " && modprobe amdgpu")
	m.restored(before, "2 CPX 2 NPS1")
}

// restored waits for the next run of dcm-apply after the one given, and expects the modes.
func (m machine) restored(before, want string) {
	m.t.Helper()
	m.run(`dcm apply`)
	if now := m.run("systemctl show --property=InvocationID --value dcm-apply"); now == before {
		m.t.Error("dcm-apply did not run again")
	}
	m.expect(modes, want)
}

// unbindAndBind: a GPU that was unbound gets its mode again.
func unbindAndBind(m machine) {
	m.run(`printf '[profiles.split]\nmemory = "NPS1"\ncompute = "CPX"\n' >>/etc/dcm/dcm.toml`)
	m.use("split")
	m.run("systemctl stop " + clients)
	before := m.run("systemctl show --property=InvocationID --value dcm-apply")
	m.run(`cd /sys/bus/pci/drivers/amdgpu && echo 0000:26:00.0 >unbind && echo 0000:26:00.0 >bind`)
	m.restored(before, "2 CPX 2 NPS1")
	before = m.run("systemctl show --property=InvocationID --value dcm-apply")
	m.run(`echo 1 >/sys/bus/pci/devices/0000:26:00.0/remove && echo 1 >/sys/bus/pci/rescan`)
	m.run(`udevadm settle`)
	m.restored(before, "2 CPX 2 NPS1")
}

// softReboot: the modes are kept, and the run's cause is the boot.
func softReboot(m machine) {
	if m.try("test -e /usr/lib/systemd/system/soft-reboot.target").Code != 0 {
		m.t.Skip("systemd before 254 has no soft-reboot")
	}
	m.use("cpx-nps4")
	m.must(m.SoftReboot)
	m.expect(modes, split)
	m.expect(allClients, allActive)
	if text := m.run("dcm report --json"); !strings.Contains(text, `"boot"`) {
		m.t.Errorf("cause of the run after a soft-reboot: want the boot, got:\n%s", text)
	}
}

// guard: only its service can open an exclusive partition, on a host with the real root cgroup.
func guard(m machine) { m.guardWorks("cpx-nps4") }

func (m machine) guardWorks(profile string) {
	m.t.Helper()
	m.put("/etc/systemd/system/holder.service", "[Service]\nExecStart=sleep infinity\n")
	m.reserveForHolder()
	m.use(profile)
	m.run("systemctl start holder")
	m.guarded()
}

func (m machine) reserveForHolder() {
	m.t.Helper()
	m.run(`printf '[[reservation]]\nunit = "holder.service"\npartitions = 1\nexclusive = true\n' >>/etc/dcm/dcm.toml && systemctl daemon-reload`)
}

// guarded expects that only holder.service can open its partition.
func (m machine) guarded() {
	m.t.Helper()
	node := m.run("readlink -f /dev/dcm/holder/render0")
	open := fmt.Sprintf("sh -c 'exec 3<>%s'", node)
	if r := m.try(open); r.Code == 0 {
		m.t.Error("a root shell opened a partition that is reserved exclusively")
	}
	for _, run := range []string{"systemd-run --quiet --wait --collect", "systemd-run --quiet --scope", "unshare --user --map-root-user"} {
		if r := m.try(run + " " + open); r.Code == 0 {
			m.t.Errorf("%s opened a partition that is reserved exclusively", run)
		}
	}
	// The guard denies this shell the topology of that partition. dcm reads it in the daemon.
	m.run("dcm check")
	cgroup := m.run("systemctl show --property=ControlGroup --value holder")
	m.run(fmt.Sprintf(`echo $$ >/sys/fs/cgroup%s/cgroup.procs && exec %s`, cgroup, open))
}

// leaseLimits: a lease can open only its own partitions, and has the limits of the slice that its process
// came from.
func leaseLimits(m machine) {
	m.use("cpx-nps4")
	got := m.run(`dcm run -n 2 -- sh -c 'for node in /dev/dri/renderD*; do (exec 3<>$node) 2>/dev/null && echo $node; done | wc -l'`)
	if got != "2" {
		m.t.Errorf("a lease of 2 partitions opens %s", got)
	}
	m.run(`systemd-run --quiet --slice=small.slice --wait --collect -p MemoryMax=200M -p TasksMax=50 -p DevicePolicy=auto true`)
	m.run(`mkdir -p /etc/systemd/system/small.slice.d && printf '[Slice]\nMemoryMax=300M\nTasksMax=60\nCPUQuota=50%%\n' >/etc/systemd/system/small.slice.d/limit.conf && systemctl daemon-reload`)
	text := m.run(`systemd-run --quiet --slice=small.slice --pipe --wait --collect dcm run -n 1 -- sh -c 'cat /sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup)/memory.max /sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup)/pids.max /sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup)/cpu.max' | xargs`)
	if text != "314572800 60 50000 100000" {
		m.t.Errorf("limits in the lease are %q, want those of the slice", text)
	}
	// If the kernel kills one process for its memory use, the other processes of the lease continue.
	m.run(`systemd-run --quiet --collect --unit=hungry --slice=small.slice dcm run -n 1 -- sh -c 'basename $(cut -d: -f3 /proc/self/cgroup) >/run/lease; tail /dev/zero; exec sleep infinity'`)
	m.await("/run/lease", ".scope")
	lease := m.run("cat /run/lease")
	m.awaitEntry("MESSAGE_ID="+unitOutOfMemory, "UNIT="+lease)
	m.expect("systemctl show -P ActiveState -P SubState "+lease+" | xargs; systemctl stop hungry", "active running")
}
