package vm_test

import (
	"fmt"
	"regexp"
	"strings"

	"dcm/internal/engine/event"
	"dcm/internal/gpu/partition"
)

// A change between these profiles has every phase, since the driver sets another compute mode when it is
// loaded.
const powerCutProfiles = `[profiles.quarters]
memory = "NPS4"
compute = "QPX"

[profiles.split]
memory = "NPS1"
compute = "CPX"
`

func powerCutModes() map[string]string {
	return map[string]string{"quarters": "2 NPS4 2 QPX", "split": "2 CPX 2 NPS1"}
}

// selected returns the selected profile, which is one of powerCutProfiles.
func (m machine) selected() string {
	m.t.Helper()
	name := m.run(`sed -n 's/^profile = "\(.*\)"/\1/p' /etc/dcm/dcm.toml`)
	if powerCutModes()[name] == "" {
		m.t.Fatalf("the selected profile is %q", name)
	}
	return name
}

// powerCuts: after a power cut in a phase of a change, the next boot puts the selected profile on the GPUs, and
// all clients are active.
func powerCuts(m machine, phases []phase) {
	m.run(`printf '%s' "$1" >>/etc/dcm/dcm.toml`, powerCutProfiles)
	m.use("split")
	want := powerCutModes()
	selected := "split"
	for _, phase := range phases {
		other := map[string]string{"quarters": "split", "split": "quarters"}[selected]
		for i, gpu := range []string{"0000:05:00.0", "0000:26:00.0"} {
			m.register(gpu, probeMS, 1000)
			m.register(gpu, switchMS, 300+700*i)
		}
		m.run("sync")
		m.run(`exec bash -c "$@"`, changeUntil, "change", other, phase.until, strings.ReplaceAll(phase.text, "SELECTED", other))
		m.must(m.PowerCut)
		m.must(m.PowerOn)
		selected = m.selected()
		m.expect(modes, want[selected])
		m.expect(allClients, allActive)
		m.expect("systemctl --failed --quiet --plain --no-legend", "")
		m.run("dcm verify " + selected)
		m.t.Logf("cut %s: %s is selected", phase.name, selected)
	}
}

// phase is a moment in a change. It begins with an event, see changeUntil.
type phase struct{ name, until, text string }

// The message ids of systemd's journal entries about its units, see sd-messages(3).
const (
	unitStarting    = "7d4958e842da4a758f6c1cdc7b36dcc5"
	unitStarted     = "39f53479d3a045ac8e11786248231fbf"
	unitStopping    = "de5b426a63be47a7b6ac3eaac82e2f6f"
	unitOutOfMemory = "fe6faa94e7774663a0da52717891d8ef"
)

// phases are those of a change of the memory and compute modes, in order.
func phases() []phase {
	const node = "/dev/dri/renderD128"
	step := func(kind partition.Kind, more ...string) string {
		return entry(append([]string{"DCM_STEP", string(kind)}, more...)...)
	}
	return []phase{
		{"when the profile is selected", "file", `profile = "SELECTED"`},
		{"while clients stop", "journal", entry("MESSAGE_ID", unitStopping, "UNIT", "gpuagent.service")},
		{"when the run starts", "journal", entry("MESSAGE_ID", unitStarting, "UNIT", "dcm-apply.service")},
		{"before the first step", "journal", entry("MESSAGE_ID", string(event.RunBegan), "DCM_PROFILE", "SELECTED")},
		{"after the memory request", "journal", step(partition.RequestMemory)},
		{"while the driver is unloaded", "removed", node},
		{"while the driver probes", "probed", node},
		{"after the reload", "journal", step(partition.ReloadDriver)},
		{"after the first switch", "journal", step(partition.SwitchCompute, "DCM_GPU", "0000:05:00.0")},
		{"after the last switch", "journal", step(partition.SwitchCompute, "DCM_GPU", "0000:26:00.0")},
		{"when clients are started", "journal", entry("MESSAGE_ID", unitStarted, "UNIT", "gpuagent.service")},
		{"when the command has returned", "end", ""},
	}
}

// fewPhases returns three phases of a change: clients stop, the driver is unloaded, and all GPUs have the new
// mode.
func fewPhases() (few []phase) {
	for i, p := range phases() {
		if i%4 == 1 {
			few = append(few, p)
		}
	}
	return few
}

// entry returns the pattern of a journal entry in JSON that has the fields, which are pairs
// of a name and a value.
func entry(fields ...string) string {
	var pattern strings.Builder
	for i := 0; i < len(fields); i += 2 {
		fmt.Fprintf(&pattern, `(?=.*"%s":"%s")`, fields[i], regexp.QuoteMeta(fields[i+1]))
	}
	return pattern.String()
}
