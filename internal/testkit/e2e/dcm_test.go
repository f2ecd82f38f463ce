package e2e_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/testkit/e2e"
)

// The units of the node, see the directory node.
const (
	exporter  = "amd-metrics-exporter.service"
	agentUnit = "gpuagent.service"
	dashboard = "dashboard.service"   // not a client, but requires gpuagent
	idle      = "idle-client.service" // a client that is never started
	absent    = "not-there.service"   // a client that is not installed
	training  = "training.service"    // not a client, but a user's job
)

// The two layouts that the scenarios use.
var (
	cpx = partition.Mode{Compute: partition.CPX, Memory: "NPS4"}
	spx = partition.Mode{Compute: partition.SPX, Memory: "NPS1"}
)

// settings is the configuration file that the scenarios edit.
const settings = "/etc/dcm/dcm.toml"

// selecting returns its content with the profile selected.
func selecting(profile string) string {
	return `profile = "` + profile + `"

[clients]
units = ["amd-metrics-exporter", "gpuagent", "idle-client", "not-there"]

# The same memory mode twice, so that no driver reload is needed between the two.
[profiles.cpx-fast]
compute = "CPX"
memory = "NPS1"
[profiles.spx-fast]
compute = "SPX"
memory = "NPS1"
`
}

// install boots a node of eight MI300X and installs the package on it.
func install(t *testing.T, recipe e2e.Recipe, p product) machine {
	t.Helper()
	return installWith(t, recipe, p, nil)
}

// installWith is install with additional files.
func installWith(t *testing.T, recipe e2e.Recipe, p product, more e2e.Seed) machine {
	t.Helper()
	seed, err := e2e.Node("mi300x-8", p.sim)
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(seed, more)
	m := boot(t, recipe, p.agent, seed)
	m.put("/root/dcm.deb", string(only(t, p.packages+"/*_amd64.deb")))
	m.run("dpkg --install /root/dcm.deb")
	return m
}

// ready establishes the initial state of a scenario: no fault, active clients, and the profile
// cpx-fast on the GPUs.
func (m machine) ready() {
	m.t.Helper()
	m.run("dcm-sim reset; systemctl stop training idle-client || :; systemctl reset-failed")
	m.run("rm -f /run/dcm/dcm.toml.d/* /etc/dcm/dcm.toml.d/*")
	m.put(settings, selecting("cpx-fast"))
	m.run("systemctl restart dcm")
	m.run("systemctl start amd-metrics-exporter gpuagent dashboard")
	m.has(partition.Mode{Compute: partition.CPX, Memory: "NPS1"})
}

// modes reads the GPUs' modes from sysfs.
func (m machine) modes() map[string]partition.Mode {
	m.t.Helper()
	text := m.run(`cd /sys/bus/pci/devices && for gpu in *; do
		[ ! -e $gpu/current_compute_partition ] || echo $gpu $(cat $gpu/current_compute_partition $gpu/current_memory_partition)
	done`)
	modes := make(map[string]partition.Mode)
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 3 {
			m.t.Fatalf("modes of a GPU: want three fields, got %q", line)
		}
		modes[f[0]] = partition.Mode{Compute: partition.Compute(f[1]), Memory: partition.Memory(f[2])}
	}
	return modes
}

// has expects each of the eight GPUs to have the mode.
func (m machine) has(want partition.Mode) {
	m.t.Helper()
	modes := m.modes()
	if got := slices.Collect(maps.Values(modes)); len(got) != 8 || slices.ContainsFunc(got, func(g partition.Mode) bool { return g != want }) {
		m.t.Errorf("modes of the GPUs are %v, want 8 times %s", modes, want)
	}
}

// partitions returns the number of compute nodes in KFD's topology.
func (m machine) partitions() string {
	m.t.Helper()
	return m.run("cat /sys/class/kfd/kfd/topology/nodes/*/gpu_id | grep -vxc 0")
}

// These conditions are polled, because the kernel has no event for them: the first GPU is
// switched to SPX, and the driver is about to be loaded.
var (
	switched     = waitFor("grep -q SPX /sys/bus/pci/devices/0000:05:00.0/current_compute_partition")
	driverComing = waitFor("grep -q coming /sys/module/amdgpu/initstate")
)

// applied waits until the daemon has applied the profile.
func (m machine) applied(profile string) {
	m.t.Helper()
	m.await("/run/dcm/state.json", `"phase": "in-sync"`, `"profile": "`+profile+`"`)
}

func (m machine) lastRun() runstate.Run { return decode[runstate.Run](m, "report.json") }
func (m machine) state() runstate.State { return decode[runstate.State](m, "state.json") }

func decode[T any](m machine, file string) (v T) {
	m.t.Helper()
	if err := json.Unmarshal([]byte(m.run("cat /run/dcm/"+file)), &v); err != nil {
		m.t.Fatal(err)
	}
	return v
}

// bounced expects each unit to have been restarted once, in order.
func (m machine) bounced(before map[string]string) {
	m.t.Helper()
	after := m.units(slices.Collect(maps.Keys(before))...)
	for unit, was := range before {
		now := after[unit]
		if !strings.HasPrefix(now, "active (running) success") || !strings.HasSuffix(now, ", 0 restarts") || now == was {
			m.t.Errorf("%s was %s and is %s, want it active with another pid", unit, was, now)
		}
	}
}

// untouched expects the units not to have been restarted.
func (m machine) untouched(before map[string]string) {
	m.t.Helper()
	after := m.units(slices.Collect(maps.Keys(before))...)
	if diff := cmp.Diff(before, after); diff != "" {
		m.t.Errorf("units (-before +after):\n%s", diff)
	}
}
