package e2e_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"dcm/internal/engine/runstate"
)

// dynamicGPU is the GPU on which leases make instances.
const dynamicGPU = "0000:61:00.0"

// dynamic has a service with an instance of GPU 3, on which leases make others.
const dynamic = `profile = "dynamic"
[[reservation]]
unit = "kept@a"
partitions = 1
gpus = [3]
[[profiles.dynamic.group]]
mig = { "2g.20gb" = 1 }
gpus = [3]
dynamic = true
[[profiles.dynamic.group]]
mig = { "3g.40gb" = 2 }
count = "rest"
`

// onDemand selects the profile on a node whose clients are off.
func (m machine) onDemand() {
	m.t.Helper()
	m.put("/etc/systemd/system/kept@.service", holder)
	m.run("systemctl disable --now amd-metrics-exporter gpuagent; systemctl stop 'worker@*' moved kept@b; systemctl daemon-reload")
	m.put(settings, "profile = \"off\"\n[profiles.off]\nmig = \"off\"\n") // no instance has a simulated node afterwards
	m.run("systemctl restart dcm && dcm use off")
	m.run("[ -e $1 ] || { mkdir -p ${1%/*}; touch $1; systemctl start e2e-nvidia; }", nodeless)
	m.knob("nodes /dev 509")
	m.put(settings, dynamic)
	m.run("systemctl restart dcm && dcm use dynamic && systemctl restart kept@a && dcm status")
}

// instancesMade: leases make instances next to one that stays, and their ends destroy these only.
func instancesMade(m machine) {
	m.onDemand()
	run, kept := m.lastRun().ID, m.units("kept@a.service")

	three, one := m.lessee("--make 3g.40gb"), m.lessee("--make 1g.10gb --time 1h")
	parts := m.partsOf(dynamicGPU)
	if len(parts) != 3 || parts["3g.40gb"].Name == "" || parts["1g.10gb"].Name == "" {
		m.t.Errorf("partitions: want 2g.20gb and those of two leases, got %+v", parts)
	}
	d := m.deal()
	for unit, profile := range map[string]string{three: "3g.40gb", one: "1g.10gb"} {
		own := parts[profile]
		if i := slices.IndexFunc(d.Parts, func(p runstate.Part) bool { return p.Name == own.Name }); i < 0 || d.Parts[i].Render != own.RenderNode {
			m.t.Errorf("partitions.json: want %s with %s", own.Name, own.RenderNode)
		} else {
			m.can(unit, d, false, append(slices.Clone(d.Parts[i].Companions), own.RenderNode))
		}
		for command, want := range map[string]string{"dcm partitions": unit, "dcm leases": own.Name, "cat /run/cdi/dcm.json": `"` + own.Name + `"`, "tr '\\0' '\\n' </proc/$(head -1 /sys/fs/cgroup/dcm.slice/" + unit + "/cgroup.procs)/environ": "DCM_PARTITIONS=" + own.Name} {
			if got := m.run(command); !strings.Contains(got, want) {
				m.t.Errorf("%s: want %s, got\n%s", command, want, got)
			}
		}
	}
	m.exits(75, "dcm run --make 3g.40gb -- true", "3g.40gb", dynamicGPU, three, one, "kept@a.service")
	m.exits(69, "dcm run --make 7g.80gb -- true", "7g.80gb")
	m.exits(69, "dcm run --make 5g.80gb -- true", "5g.80gb")
	m.exits(69, "dcm run --mode 1g.10gb -- true") // an instance of a lease is not for others
	m.exits(0, "dcm status")
	m.exits(0, "dcm plan")

	// A request waits for the slots of the first lease. The end of a lease destroys its instance only.
	m.run("rm -f /run/waited; setsid sh -c 'dcm run --make 3g.40gb --wait -- true; echo $? >/run/waited' >/dev/null 2>&1 </dev/null & " + queued(1))
	m.run("dcm release " + three)
	m.await("/run/waited", "0")
	m.gone("3g.40gb")
	if left := m.partsOf(dynamicGPU); left["1g.10gb"].DriverID != parts["1g.10gb"].DriverID || left["2g.20gb"].DriverID != parts["2g.20gb"].DriverID || len(left) != 2 {
		m.t.Errorf("partitions after the end of a lease: got %+v", left)
	}
	m.untouched(kept)
	if now := m.lastRun().ID; now != run {
		m.t.Errorf("run %s was started", now)
	}

	// A change of the profile waits for the leases of the GPU.
	m.put(settings, strings.Replace(dynamic, `{ "2g.20gb" = 1 }`, `{ "7g.80gb" = 1 }`, 1))
	m.exits(75, "dcm apply", one)
	m.put(settings, dynamic)
	m.run("dcm apply; dcm release " + one)
	m.gone("1g.10gb")
}

// gone waits until no lease has an instance of the profile.
func (m machine) gone(profile string) {
	m.t.Helper()
	m.until(`ls -R /dev/dcm-made; systemctl list-units --all 'dcm-make@*'; ! ls /dev/dcm-made | grep -q "_$1_"`, profile)
}

// madeInUse: an instance that stays in use outlives its lease, and dcm status says so. Until it is destroyed, the
// daemon waits, and does not wake itself by its own questions to PID 1.
func madeInUse(m machine) {
	m.onDemand()
	lease := m.lessee("--make 3g.40gb")
	m.knob("in-use " + dynamicGPU)
	m.run("dcm release " + lease)
	m.until(`dcm status; systemctl status 'dcm-make@*'; dcm status --json | grep -q '3g.40gb at slot .* is not destroyed: .*in use'`)
	m.quietBus()
	m.knob("")
	m.gone("3g.40gb")
	m.until("dcm status; ! dcm status --json | grep -q 'not destroyed'")
}

// quietBus expects that the daemon does not wake itself: each question to PID 1 about a unit that is not loaded
// loads and unloads it, which is a signal.
func (m machine) quietBus() {
	m.t.Helper()
	const most = 10 // an attempt to destroy an instance or to switch a GPU causes a few
	asked := m.run("timeout 3 busctl monitor org.freedesktop.systemd1 | grep -c Member=UnitRemoved || true")
	if n, err := strconv.Atoi(asked); err != nil || n > most {
		m.t.Errorf("removed units within 3 s: got %q, want at most %d", asked, most)
	}
}

// madeKilled: the daemon, the maker or the client is killed while an instance is created. Nothing is left.
func madeKilled(m machine) {
	m.onDemand()
	before := m.partsOf(dynamicGPU)
	for _, killed := range []string{
		"systemctl kill --signal=KILL dcm; kill -KILL $(cat /run/client)",
		"kill -KILL $(cat /run/client)",
		"systemctl kill --signal=KILL 'dcm-make@*'",
		"systemctl kill --signal=KILL dcm 'dcm-make@*'; kill -KILL $(cat /run/client)",
	} {
		m.knob("hang nvmlGpuInstanceCreateComputeInstance")
		m.run("setsid dcm run --make 3g.40gb -- true >/run/client.out 2>&1 </dev/null & echo $! >/run/client; " + waitFor("ls /dev/dcm-made | grep -q 3g.40gb"))
		m.run(killed)
		m.knob("")
		m.until("ls -R /dev/dcm-made; cat /run/client.out; systemctl list-units --all 'dcm-make@*'; [ -z \"$(ls /dev/dcm-made)\" ]")
		m.run("systemctl start dcm; ! systemctl list-units 'dcm-*.scope' | grep -q dcm-lease")
		if after := m.partsOf(dynamicGPU); len(after) != 1 || after["2g.20gb"].DriverID != before["2g.20gb"].DriverID {
			m.t.Errorf("after %s: want one partition, got %+v", killed, after)
		}
	}
	// The daemon is killed at some time of a lease: the client gets its lease from the next one.
	for delay := range 8 {
		m.run(fmt.Sprintf("dcm run --make 3g.40gb --wait -- true & client=$!; sleep 0.%d; systemctl kill --signal=KILL dcm; wait $client", delay))
	}
	m.until("ls -R /dev/dcm-made; systemctl list-units --all 'dcm-make@*'; [ -z \"$(ls /dev/dcm-made)\" ]")
	m.run("systemctl start dcm") // a daemon that starts has no status yet
	if after := m.partsOf(dynamicGPU); len(after) != 1 {
		m.t.Errorf("at the end: want one partition, got %+v", after)
	}
	m.exits(0, "dcm status")
}
