package e2e_test

import "strings"

const busyCheck = "/run/dcm/modes/busy-check.json"

// olderBusyCheck: a driver before Linux 6.17 refuses a switch while a process is attached to any
// GPU. The first switch shows it. Then all users are restarted.
func olderBusyCheck(m machine) {
	m.put(settings, eachGPU("same"))
	m.run("systemctl reload dcm; dcm use same")
	if got := m.run("cat " + busyCheck); !strings.Contains(got, `"fact": "gpu"`) {
		m.t.Errorf("stored check: want that of one GPU, got %s", got)
	}
	m.run("dcm-sim check node && rm " + busyCheck)
	before := m.units(workers()...)
	r := m.try("dcm use third")
	m.t.Logf("exit status %d: %s%s", r.Code, r.Stdout, r.Stderr)
	m.applied("third")
	m.bounced(before)
	if got := m.run("cat " + busyCheck); !strings.Contains(got, `"fact": "node"`) {
		m.t.Errorf("stored check: want that of all GPUs, got %s", got)
	}

	// Now every user restarts at the first attempt.
	before = m.units(workers()...)
	failures := m.newEntries("_SYSTEMD_UNIT=dcm-change.service")
	m.run("dcm use same")
	m.bounced(before)
	if n := len(failures()); n > 0 {
		m.t.Errorf("runs for single GPUs: want none, got %d journal entries", n)
	}
	m.run("dcm-sim check gpu && rm " + busyCheck)
}
