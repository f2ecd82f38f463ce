package e2e_test

import "strings"

const lost = "0000:c6:00.0"

// toldEverywhere: whatever is wrong, dcm status, the bus, the metrics and the unit's
// status line say the same, and stop saying it when it is over.
func toldEverywhere(m machine) {
	status := func(code int, text string) {
		m.t.Helper()
		if r := m.try("dcm status"); r.Code != code || !strings.Contains(r.Stdout, text) {
			m.t.Errorf("dcm status ended with %d, want %d and %q:\n%s%s", r.Code, code, text, r.Stdout, r.Stderr)
		}
	}
	status(0, "Profile cpx-fast is on the GPUs")

	m.run("systemctl stop dcm-apply")
	status(2, "it went with dcm-apply.service, which was stopped")
	m.shows(manager+" Health", `s "clients-down"`)
	if text := m.run("systemctl show --property=StatusText dcm"); !strings.Contains(text, "clients are down") {
		m.t.Errorf("systemctl shows %q", text)
	}
	m.run("systemctl start dcm-apply amd-metrics-exporter gpuagent dashboard")
	m.shows(manager+" Health", `s "healthy"`) // though nobody has asked
	status(0, "")

	m.run("systemctl disable --quiet dcm-apply")
	status(1, "dcm-apply.service is disabled")
	m.run("systemctl enable --quiet dcm-apply; systemctl stop dcm")
	status(1, "dcm.service does not run")
	m.run("systemctl start dcm")
	status(0, "")

	m.run("dcm-sim fault --gpu " + lost + " --vanish")
	status(2, "7 of 8 GPUs: not there is "+lost)
	m.shows(manager+" InSync", "b false")
	if r := m.try("dcm verify"); r.Code != 2 || !strings.Contains(r.Stdout, lost) {
		m.t.Errorf("dcm verify ended with %d:\n%s", r.Code, r.Stdout)
	}
	if got := m.try("dcm partitions").Stdout; strings.Count(got, " CPX/NPS1 ") != 7*8 {
		m.t.Errorf("dcm partitions:\n%s", got)
	}
	m.run("dcm-sim reset; systemctl restart dcm")
	m.converges("cpx-fast")
	status(0, "")
}
