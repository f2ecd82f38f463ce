package e2e_test

import (
	"fmt"
	"slices"
	"strings"

	"dcm/internal/engine/runstate"
	"dcm/internal/testkit/e2e"
)

// slicing is the configuration of the scenarios with leases and reservations of MIG devices.
const slicing = `profile = "%s"

[clients]
units = ["amd-metrics-exporter", "gpuagent"]

[guard]
observers = ["amd-metrics-exporter"]

[leases]
shares = 2

[profiles.off]
mig = "off"
[profiles.small]
mig = { "1g.10gb" = 7 }
[profiles.mixed]
mig = { "3g.40gb" = 1, "2g.20gb" = 1, "1g.10gb" = 2 }
[profiles.split]
mig = { "1c.4g.40gb" = 4, "3g.40gb" = 1 }
[profiles.large]
mig = { "7g.80gb" = 1 }

[[reservation]]
unit = "alpha"
partitions = 2
exclusive = true

[[reservation]]
unit = "beta@1"
partitions = %d
place = "spread"

[[reservation]]
unit = "notebook@"
partitions = 1
share = 2
`

func (m machine) slice(profile string, beta int) {
	m.t.Helper()
	m.put(settings, fmt.Sprintf(slicing, profile, beta))
}

// nodeless is the path of a flag file. If it exists, an early unit replaces NVIDIA's device nodes by nodes
// without a driver.
const nodeless = "/etc/e2e/nodeless"

// driverlessNVIDIA returns the unit that makes the nodes of the GPUs. The stand-in of the
// library makes those of instances, like the driver's library.
func driverlessNVIDIA() e2e.Seed {
	return early("e2e-nvidia", "ConditionPathExists="+nodeless+"\n", "e2e-node.service e2e-devices.service", `#!/bin/sh
gpus=$(ls -d /dev/nvidia[0-9]*)
umount /dev/nvidia*; rm -r /dev/nvidia*
for gpu in $gpus; do mknod -m 666 "$gpu" c 195 "${gpu#/dev/nvidia}"; done
mknod -m 666 /dev/nvidiactl c 195 255; mknod -m 666 /dev/nvidia-modeset c 195 254
mknod -m 666 /dev/nvidia-uvm c 510 0; mknod -m 666 /dev/nvidia-uvm-tools c 510 1
mkdir /dev/nvidia-caps
mknod -m 600 /dev/nvidia-caps/nvidia-cap1 c 509 1; mknod -m 666 /dev/nvidia-caps/nvidia-cap2 c 509 2
mkdir -p /sys/fs/bpf; mountpoint -q /sys/fs/bpf || mount -t bpf bpf /sys/fs/bpf
`)
}

// migNodes replaces the simulator's device nodes by real ones. After it, tests can check which
// process can open a node, but holders of GPUs are not visible.
func migNodes(m machine) {
	for _, name := range []string{"alpha", "beta@", "notebook@"} {
		m.put("/etc/systemd/system/"+name+".service", holder)
	}
	m.slice("off", 1)
	m.run("systemctl daemon-reload; systemctl restart dcm; systemctl stop gpuagent amd-metrics-exporter")
	m.run("touch " + nodeless + "; systemctl start e2e-nvidia; systemctl add-wants multi-user.target alpha beta@1 notebook@1")
	m.knob("nodes /dev 509")
	// If the nodes of the GPUs are missing, the oneshot makes them by the library.
	m.run("rm /dev/nvidiactl /dev/nvidia3; systemctl restart dcm-apply dcm; systemctl start gpuagent amd-metrics-exporter alpha beta@1 notebook@1; [ -c /dev/nvidiactl -a -c /dev/nvidia3 ]")
}

// deal is an allocation of partitions to units, with their nodes.
type deal struct {
	runstate.Partitions
	nodes []string // all NVIDIA device nodes, and those of partitions
}

func (m machine) deal() deal {
	m.t.Helper()
	d := deal{Partitions: decode[runstate.Partitions](m, "partitions.json")}
	d.nodes = strings.Fields(m.run("ls -d /dev/nvidia[0-9]* /dev/nvidiactl /dev/nvidia-uvm* /dev/nvidia-caps/*"))
	for _, p := range d.Parts {
		d.nodes = append(d.nodes, p.Render)
	}
	slices.Sort(d.nodes)
	d.nodes = slices.Compact(d.nodes)
	return d
}

// with returns the nodes that a holder of the partitions can open. A partition is given by its
// name or its own node.
func (d deal) with(partitions ...string) []string {
	var out []string
	for _, p := range d.Parts {
		if slices.Contains(partitions, p.Name) || slices.Contains(partitions, p.Render) {
			out = append(append(out, p.Render), p.Companions...)
		}
	}
	return out
}

// of returns the partitions of a reservation by their own nodes.
func (d deal) of(name string) []string {
	var out []string
	for _, r := range d.Reservations {
		for _, p := range d.Parts {
			if r.Name == name && slices.Contains(r.Partitions, p.Name) {
				out = append(out, p.Render)
			}
		}
	}
	return out
}

// can checks for every node whether a unit's processes can open it: only these nodes or, with but, all
// nodes except these.
func (m machine) can(unit string, d deal, but bool, nodes []string) {
	m.t.Helper()
	var want, wrong []string
	for _, node := range d.nodes {
		want = append(want, map[bool]string{true: "yes", false: "no"}[slices.Contains(nodes, node) != but])
	}
	got := strings.Fields(m.opens(unit, d.nodes...))
	for i, node := range d.nodes {
		if i >= len(got) || got[i] != want[i] {
			wrong = append(wrong, node+" not "+want[i])
		}
	}
	if len(wrong) > 0 {
		m.t.Errorf("nodes that %q opens, of %d: got %s", unit, len(d.nodes), strings.Join(wrong, ", "))
	}
}

// dealt expects services with reservations to open only their own partitions, and exclusive
// partitions to open for no other process.
func (m machine) dealt(beta int) deal {
	m.t.Helper()
	d := m.deal()
	alpha, shared := d.of("alpha"), d.of("notebook")
	if len(alpha) != 2 || len(d.of("beta-1")) != beta || len(shared) != 1 {
		m.t.Fatalf("reservations: got %+v", d.Reservations)
	}
	m.can("alpha.service", d, false, d.with(alpha...))
	m.can("beta@1.service", d, false, d.with(d.of("beta-1")...))
	m.can("notebook@1.service", d, false, d.with(shared...))
	m.can(agentUnit, d, true, alpha)
	m.can("", d, true, alpha)
	m.can("container", d, true, alpha)
	m.can(exporter, d, true, nil) // an observer
	return d
}

// wholeReserved: with MIG off a GPU is one partition.
func wholeReserved(m machine) {
	d := m.dealt(1)
	if mine := d.of("alpha"); !strings.HasPrefix(mine[0], "/dev/nvidia") || strings.Contains(mine[0], "caps") {
		m.t.Errorf("nodes of alpha: want a whole GPU, got %s", mine)
	}
	m.divided("MIG off", 0)
	if got := m.run("dcm gpus; dcm status; dcm partitions"); strings.Contains(got, "permission") {
		m.t.Errorf("commands of root on guarded GPUs: want no permission error, got:\n%s", got)
	}
	// The library reports the GPU as forbidden, or does not list it.
	for _, how := range []string{"nodes /dev 509", "unlisted"} {
		m.knob(how)
		m.exits(0, "dcm verify", "off")
		if got := m.run("dcm verify; dcm check; dcm export"); !strings.Contains(strings.Join(strings.Fields(got), " "), " small 56 ") || strings.Count(got, "0000:") != 0 {
			m.t.Errorf("%s: commands of root: want all GPUs and no address, got\n%s", how, got)
		}
		if r := m.try("dcm plan small"); r.Code != 2 || !strings.Contains(r.Stdout, " on 8 GPUs: ") {
			m.t.Errorf("dcm plan with %s: want a step for 8 GPUs and exit status 2, got %d\n%s%s", how, r.Code, r.Stdout, r.Stderr)
		}
	}
	m.run("systemctl stop dcm")
	m.exits(1, "dcm verify", "daemon")
	m.knob("")
	m.knob("nodes /dev 509")
	m.run("systemctl start dcm")
}

// devicesReserved: services get devices of each geometry. The second one has compute instances
// that share a GPU instance.
func devicesReserved(m machine) {
	for _, s := range []struct {
		profile string
		parts   int
	}{{"small", 8 * 7}, {"split", 8 * 5}, {"mixed", 8 * 4}} {
		had, before := m.mine("alpha"), m.units("alpha.service", "beta@1.service", "notebook@1.service", agentUnit)
		m.slice(s.profile, 1)
		m.run("dcm apply")
		m.bounced(before)
		d := m.dealt(1)
		if now := m.mine("alpha"); len(d.Parts) != s.parts || slices.Equal(now, had) || !slices.Equal(now, d.of("alpha")) || !strings.HasPrefix(now[0], "/dev/nvidia-caps/") {
			m.t.Errorf("profile %s with %d partitions: alpha has %s, want others than %s", s.profile, len(d.Parts), now, had)
		}
		if text := m.run("cat /run/cdi/dcm.json"); !strings.Contains(text, `"reservation-alpha"`) || !strings.Contains(text, d.of("alpha")[0]) {
			m.t.Errorf("CDI file: want the devices of alpha, got\n%s", text)
		}
	}
	before := m.units("alpha.service", agentUnit)
	m.slice("off", 12)
	if r := m.try("dcm apply"); r.Code == 0 || !hasAll(r.Stderr, "15", "alpha 2", "beta-1 12", "notebook 1", "8") {
		m.t.Errorf("apply with 15 reserved of 8: want a failure with all reservations, got %d: %s", r.Code, r.Stderr)
	}
	m.untouched(before)
	m.slice("mixed", 3)
	m.run("dcm apply")
	m.untouched(before)
	m.dealt(3)
	m.run("systemctl start notebook@2")
	if r := m.try("systemctl start notebook@3"); r.Code == 0 {
		m.t.Error("third instance of a reservation for two: want a failure")
	}
	m.can("notebook@2.service", m.deal(), false, m.deal().with(m.deal().of("notebook")...))
	m.run("systemctl stop notebook@2; systemctl reset-failed notebook@3")
}

// lessee starts a lease that does not end by itself and returns its unit.
func (m machine) lessee(options string) string {
	m.t.Helper()
	m.run("rm -f /tmp/lessee; setsid dcm run " + options + ` -- sh -c 'sed "s|.*/||" /proc/self/cgroup >/tmp/lessee.new; mv /tmp/lessee.new /tmp/lessee; exec sleep infinity' >/tmp/lessee.out 2>&1 </dev/null &`)
	m.await("/tmp/lessee", ".scope")
	return m.run("cat /tmp/lessee")
}

// leased returns the partitions of a lease by their own nodes.
func (m machine) leased(d deal, unit string) []string {
	m.t.Helper()
	allowed := strings.Fields(m.run("systemctl show -P DeviceAllow " + unit))
	var out []string
	for _, p := range d.Parts {
		if slices.Contains(allowed, p.Render) {
			out = append(out, p.Render)
		}
	}
	return out
}

// devicesLeased: leases of MIG devices are confined to them, of each kind.
func devicesLeased(m machine) {
	d := m.deal()
	two, alone := m.lessee("-n 2"), m.lessee("--exclusive")
	one, other := m.lessee("--share 2"), m.lessee("--share 2")
	has := make(map[string][]string)
	for unit, n := range map[string]int{two: 2, alone: 1, one: 1, other: 1} {
		if has[unit] = m.leased(d, unit); len(has[unit]) != n {
			m.t.Errorf("%s has %s, want %d", unit, has[unit], n)
		}
		m.can(unit, d, false, d.with(has[unit]...))
	}
	if !slices.Equal(has[one], has[other]) {
		m.t.Errorf("nodes of two sharers: want the same, got %s and %s", has[one], has[other])
	}
	shut := append(d.of("alpha"), has[alone]...)
	m.can("", d, true, shut)
	m.can(agentUnit, d, true, shut)
	if list := m.run("dcm partitions"); strings.Count(list, two) != 2 || !strings.Contains(list, one+" "+other) && !strings.Contains(list, other+" "+one) {
		m.t.Errorf("dcm partitions: want all holders, got:\n%s", list)
	}
	m.run("rm /dev/nvidia-uvm-tools")
	if got := m.run("dcm run -- true 2>&1"); !strings.Contains(got, "/dev/nvidia-uvm-tools") {
		m.t.Errorf("dcm run with a missing node: want its name, got %q", got)
	}
	m.run("mknod -m 666 /dev/nvidia-uvm-tools c 510 1")
	// PID 1 may have renewed the device list of a lease while the node was missing.
	d.nodes = slices.DeleteFunc(slices.Clone(d.nodes), func(node string) bool { return node == "/dev/nvidia-uvm-tools" })
	if r := m.try("dcm run -n 30 -- true"); r.Code != 69 || !hasAll(r.Stderr, "32", "alpha") {
		m.t.Errorf("request for more than can be leased: want 69, got %d, %s", r.Code, r.Stderr)
	}
	before := m.units("alpha.service", agentUnit)
	m.slice("large", 3)
	if r := m.try("dcm apply"); r.Code == 0 || !strings.Contains(r.Stderr, "dcm-lease-0-") {
		m.t.Errorf("change of the geometry with leases: want a refusal, got %d, %s", r.Code, r.Stderr)
	}
	m.untouched(before)
	m.slice("mixed", 3)
	m.run("systemctl kill --signal=KILL dcm; systemctl daemon-reexec; systemctl restart dcm")
	m.can(two, d, false, d.with(has[two]...))
	m.can("", d, true, shut)
	m.run("dcm release " + two + "; systemctl kill --signal=KILL " + alone + " " + one + " " + other)
	m.until(opensFor, has[alone][0])
	m.can("", d, true, d.of("alpha"))
}

// cdiRefresh stands for NVIDIA's service: it describes the partitions of the last list, after a delay.
const cdiRefresh = `#!/bin/sh
grep -c ^gi "$STATE" >>/run/refreshed
sleep "$(cat /run/refresh-delay 2>/dev/null || echo 0)"
[ ! -e /run/refresh-fails ] || exit 1
{
	printf 'cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ncontainerEdits:\n  env: [NVIDIA=1]\ndevices:\n'
	for uuid in $(grep -oE '(MIG|GPU)-[0-9a-f-]+' /run/dcm/partitions.json | sort -u); do printf -- '- name: %s\n' "$uuid"; done
} >/run/cdi/.new && mv /run/cdi/.new /run/cdi/nvidia.yaml
`

// cdiRefreshed: if NVIDIA's own service is installed, dcm starts it after each change. dcm writes its own names in
// any case, and a lease has only names that a specification has.
func cdiRefreshed(m machine) {
	const refresh = "nvidia-cdi-refresh.service"
	m.put("/usr/local/bin/cdi-refresh", cdiRefresh)
	m.put("/usr/lib/systemd/system/"+refresh, "[Service]\nType=oneshot\nEnvironment=STATE="+e2e.MIGState+"\nExecStart=sh /usr/local/bin/cdi-refresh\n")
	m.run("systemctl daemon-reload")
	m.slice("large", 3)
	m.run("dcm apply")
	m.await("/run/refreshed", "8")
	if got := m.run("cat /run/refreshed"); got != "8" {
		m.t.Errorf("instances at the start of nvidia-cdi-refresh: want 8, got %s", got)
	}
	// given returns the names of a lease.
	given := func(options string) []string {
		m.t.Helper()
		list := strings.Fields(m.run("dcm run " + options + ` -- sh -c 'echo "$DCM_CDI_DEVICES"'`))
		for _, name := range list {
			kind, device, _ := strings.Cut(name, "=")
			m.run(`grep -l -F -e "\"$2\"" -e "name: $2" $(grep -l -F "$1" /run/cdi/*)`, kind, device)
		}
		return list
	}
	starts := func(list []string, want string) {
		m.t.Helper()
		if len(list) != 1 || !strings.HasPrefix(list[0], want) {
			m.t.Errorf("names of a lease: got %q, want %s", list, want)
		}
	}
	m.until("grep -q MIG- /run/cdi/nvidia.yaml")
	starts(given("-n 1"), "nvidia.com/gpu=MIG-")
	m.run("grep -q 0000:df:00.0 /run/cdi/dcm.json && grep -q reservation- /run/cdi/dcm.json")

	// The service fails, or does not write the device.
	m.run("touch /run/refresh-fails; rm /run/cdi/nvidia.yaml; systemctl start " + refresh + "; true")
	starts(given("-n 1"), "deviceconfig.org/partition=")
	m.exits(0, "dcm run -n 1 -- true", "without NVIDIA's libraries", refresh+" has failed")
	checked := func(want string) { // the exit status is that of all checks
		m.t.Helper()
		m.run(`dcm check 2>&1 | grep -F -e "$1"`, want)
	}
	checked(refresh + ": it has failed")
	m.run("rm /run/refresh-fails; echo 2 >/run/refresh-delay; systemctl start --no-block " + refresh)
	starts(given("-n 1"), "nvidia.com/gpu=MIG-") // it waits
	m.run("sed -i '0,/MIG-/{/MIG-/d}' /run/cdi/nvidia.yaml")
	checked("/run/cdi/nvidia.yaml: it lacks")
	m.run("rm /run/refresh-delay; systemctl start " + refresh)

	m.run("systemctl mask " + refresh + "; rm /run/cdi/nvidia.yaml")
	m.slice("small", 3)
	m.run("dcm apply; grep -q 0000:df:00.0-6 /run/cdi/dcm.json")
	starts(given("-n 1"), "deviceconfig.org/partition=")
	m.run("rm /usr/lib/systemd/system/" + refresh + "; systemctl unmask " + refresh + "; systemctl daemon-reload")
}
