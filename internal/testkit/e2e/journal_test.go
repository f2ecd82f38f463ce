package e2e_test

import (
	"strings"

	"dcm/internal/engine/event"
)

// journal: entries about the failure of one GPU have its address and an explanation.
func journal(m machine) {
	const gpu = "0000:e5:00.0"
	m.run("dcm-sim fault --gpu " + gpu + " --op compute --errno EINVAL --times 3")
	m.put(settings, selecting("spx-fast"))
	m.await("/run/dcm/state.json", `"phase": "failed"`)
	m.run("journalctl --sync")
	m.t.Log(m.run("journalctl --boot --no-hostname --output=short-monotonic --unit=dcm --unit=dcm-apply --lines=60"))
	m.t.Log(m.try("systemctl status --no-pager --full dcm").Stdout)

	of := "journalctl --boot --unit=dcm-apply DCM_GPU=" + gpu
	back := false
	for _, e := range m.entries("--unit=dcm-apply DCM_GPU=" + gpu) {
		back = back || e["DCM_FROM"] == "SPX" && e["DCM_TO"] == "CPX" && e["MESSAGE_ID"] == nil
		if text, _ := e["MESSAGE"].(string); strings.Contains(text, "0000:05:00.0") {
			m.t.Errorf("messages about %s: want none about another GPU, got %q", gpu, text)
		}
	}
	if !back {
		m.t.Errorf("messages about %s: want one about the way back from SPX to CPX", gpu)
	}
	if text := m.run(of + " --catalog"); !hasAll(text, "Subject: ", gpu, "CPX", "SPX", "journalctl -b DCM_GPU="+gpu) || strings.Contains(text, "@DCM_") {
		m.t.Errorf("explanation of the failed step: want a subject with the GPU and both modes, got:\n%s", text)
	}
	found := m.entries("--unit=dcm-apply DCM_GPU=" + gpu + " MESSAGE_ID=" + string(event.StepFailed))
	if len(found) == 0 {
		m.t.Fatal("journal: want an entry about the failed step")
	}
	last := found[len(found)-1]
	for field, want := range map[string]string{
		"DCM_PROFILE": "spx-fast", "DCM_FROM": "CPX", "DCM_TO": "SPX", "DCM_STEP": "compute", "SYSLOG_IDENTIFIER": "dcm-apply", "DCM_RUN": m.lastRun().ID,
	} {
		if got := last[field]; got != want || got == "" {
			m.t.Errorf("field %s is %q, want %q", field, got, want)
		}
	}
	// The daemon's entries about the run have the id of the run.
	if all := m.entries("--unit=dcm DCM_UNIT=dcm-apply.service DCM_RUN=" + m.lastRun().ID); len(all) == 0 || all[0]["DCM_TOOK"] == nil {
		m.t.Errorf("the daemon's messages about the run: want one with DCM_TOOK, got %v", all)
	}
	m.put(settings, "profile = 7\n")
	m.await("/run/dcm/state.json", `"config": "`+settings)
	if text := m.run("journalctl --boot --catalog --unit=dcm MESSAGE_ID=" + string(event.ConfigRejected)); !strings.Contains(text, "Subject: ") {
		m.t.Errorf("explanation of a broken configuration: want a subject, got:\n%s", text)
	}
}
