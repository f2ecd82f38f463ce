package vm_test

import "strings"

// A change between these profiles has every phase: the driver comes up in another compute
// mode.
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

// powerCuts: after a power cut in any phase of a change, the next boot ends with the
// selected profile on the GPUs and all clients up.
func powerCuts(m machine) {
	m.run(`printf '%s' "$1" >>/etc/dcm/dcm.toml`, powerCutProfiles)
	m.use("split")
	want := powerCutModes()
	selected := "split"
	for _, phase := range phases() {
		other := map[string]string{"quarters": "split", "split": "quarters"}[selected]
		for i, gpu := range []string{"0000:05:00.0", "0000:26:00.0"} {
			m.register(gpu, probeMS, 1000)
			m.register(gpu, switchMS, 300+700*i)
		}
		m.run("sync")
		m.run(`exec bash -c "$@"`, changeUntil, "change", other, phase.until, strings.ReplaceAll(phase.text, "PROFILE", other))
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

type phase struct{ name, until, text string }

// phases are those of a change of the memory and compute modes, in order. Each is
// recognised by an event: a text in a file or in the journal, a device, or the end of the
// command.
func phases() []phase {
	const node = "/dev/dri/renderD128"
	return []phase{
		{"when the profile is selected", "file", `profile = "PROFILE"`},
		{"while clients stop", "journal", "Stopping gpuagent"},
		{"when the run starts", "journal", "Starting dcm-apply"},
		{"before the first step", "journal", "putting profile PROFILE"},
		{"after the memory request", "journal", "requested NPS"},
		{"while the driver is unloaded", "removed", node},
		{"while the driver probes", "probed", node},
		{"after the reload", "journal", "reloaded the driver"},
		{"after the first switch", "journal", "switched 0000:05:00.0"},
		{"after the last switch", "journal", "switched 0000:26:00.0"},
		{"when clients are started", "journal", "Started gpuagent"},
		{"when the command has returned", "end", ""},
	}
}
