package e2e_test

import (
	"strings"
	"testing"

	"dcm/internal/testkit/e2e"
)

// withoutPrograms: if systemd cannot load device programs, a device list has no effect. No command may
// claim that it has one.
func withoutPrograms(t *testing.T, p product) {
	t.Parallel()
	seed := driverless()
	delete(seed, e2e.DevicePrograms)
	m := installWith(t, suites()[0], p, seed)
	for _, name := range []string{"alpha", "beta@", "gamma"} {
		m.put("/etc/systemd/system/"+name+".service", holder)
	}
	m.reserve("cpx-fast", 1)
	m.run("systemctl daemon-reload; systemctl restart dcm; systemctl start alpha")
	m.await("/run/dcm/guard.json", `"unconfined": true`)
	if got := m.opens("alpha.service", m.mine("gamma")...); got != "yes" {
		t.Fatalf("node of gamma opened by alpha without device programs: want it open, got %s", got)
	}
	if g := m.account().Guard; g.Loaded || !g.Unconfined || g.Why == "" {
		t.Errorf("guard without device programs: want it not loaded, units unconfined, and why, got %+v", g)
	}
	for _, command := range []string{"dcm run -- true", "dcm run --exclusive -- true"} {
		r := m.try(command)
		exclusive := strings.Contains(command, "exclusive")
		if r.Code != 0 || !strings.Contains(r.Stderr, "not confined: ") || !strings.Contains(r.Stderr, "/dev/dri/renderD") ||
			strings.Contains(r.Stderr, ": not exclusive: ") != exclusive || strings.Contains(r.Stderr, "confined, not exclusive") {
			t.Errorf("%s: want success and a note, got %d: %s", command, r.Code, r.Stderr)
		}
	}
}
