package e2e_test

import (
	"encoding/json"
	"strings"

	"dcm/internal/engine/event"
)

// journal: a failure of one GPU is found by its address, and explained.
func journal(m machine) {
	const gpu = "0000:e5:00.0"
	m.run("dcm-sim fault --gpu " + gpu + " --op compute --errno EINVAL --times 3")
	m.put(settings, selecting("spx-fast"))
	m.await("/run/dcm/state.json", `"phase": "failed"`)
	m.run("journalctl --sync")
	m.t.Log(m.run("journalctl --boot --no-hostname --output=short-monotonic --unit=dcm --unit=dcm-apply --lines=60"))
	m.t.Log(m.try("systemctl status --no-pager --full dcm").Stdout)

	of := "journalctl --boot --unit=dcm-apply DCM_GPU=" + gpu
	if text := m.run(of + " --output=cat"); strings.Contains(text, "0000:05:00.0") || !strings.Contains(text, "switched "+gpu+" from SPX to CPX, in ") {
		m.t.Errorf("the story of %s is\n%s", gpu, text)
	}
	if text := m.run(of + " --catalog"); !strings.Contains(text, "Subject: GPU "+gpu+" could not be changed from CPX to SPX") ||
		!strings.Contains(text, "journalctl -b DCM_GPU="+gpu) || strings.Contains(text, "@DCM_") {
		m.t.Errorf("the explanation is\n%s", text)
	}
	entry := make(map[string]any)
	found := m.run(of + " --output=json MESSAGE_ID=" + string(event.StepFailed) + " --lines=1")
	if err := json.Unmarshal([]byte(found), &entry); err != nil {
		m.t.Fatalf("%v: %q", err, found)
	}
	for field, want := range map[string]string{
		"DCM_PROFILE": "spx-fast", "DCM_FROM": "CPX", "DCM_TO": "SPX", "DCM_STEP": "compute", "SYSLOG_IDENTIFIER": "dcm-apply", "DCM_RUN": m.lastRun().ID,
	} {
		if got := entry[field]; got != want || got == "" {
			m.t.Errorf("field %s is %q, want %q", field, got, want)
		}
	}
	// The daemon's entries about the run are found with the run's own.
	if text := m.run("journalctl --boot --output=cat --unit=dcm DCM_RUN=" + m.lastRun().ID); !strings.Contains(text, "dcm-apply.service has ended after ") {
		m.t.Errorf("the daemon says of the run\n%s", text)
	}
	m.put(settings, "profile = 7\n")
	m.await("/run/dcm/state.json", `"config": "`+settings)
	if text := m.run("journalctl --boot --catalog --unit=dcm MESSAGE_ID=" + string(event.ConfigRejected)); !strings.Contains(text, "Subject: dcm's configuration has a mistake") {
		m.t.Errorf("the explanation of a broken configuration is\n%s", text)
	}
}
