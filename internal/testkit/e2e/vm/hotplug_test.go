package vm_test

import "strings"

// hotplugInChange: a GPU is unbound and bound, or removed and found again, at each phase of a change. dcm puts
// the selected profile on all GPUs without a further command, and all clients are active.
func hotplugInChange(m machine) {
	const gpu = "0000:26:00.0"
	actions := []struct{ name, command string }{
		{"remove and rescan", `cd /sys/bus/pci && echo 1 >devices/$1/remove && echo 1 >rescan`},
		// The driver may be absent, or the GPU not bound yet.
		{"unbind and bind", `cd /sys/bus/pci/drivers/amdgpu && echo $1 >unbind && echo $1 >bind || :`},
	}
	m.run(`printf '%s' "$1" >>/etc/dcm/dcm.toml`, powerCutProfiles)
	m.use("split")
	selected := "split"
	for i, phase := range phases() {
		selected = map[string]string{"quarters": "split", "split": "quarters"}[selected]
		action := actions[i%len(actions)]
		m.register("0000:05:00.0", switchMS, 300)
		m.register(gpu, switchMS, 1000)
		m.run(`exec bash -c "$@"`, changeUntil, "change", selected, phase.until, strings.ReplaceAll(phase.text, "SELECTED", selected))
		m.run(action.command, gpu)
		m.t.Logf("%s %s, selected is %s", action.name, phase.name, selected)
		m.run(`e2e-agent await-command 'dcm verify "$1" >/dev/null && systemctl is-active --quiet $2' "$1" "$2"`, selected, clients)
		m.expect(modes, powerCutModes()[selected])
		m.run("e2e-agent await-command 'systemctl stop change 2>/dev/null; ! systemctl is-active --quiet change'")
		m.expect("systemctl --failed --quiet --plain --no-legend", "")
	}
}
