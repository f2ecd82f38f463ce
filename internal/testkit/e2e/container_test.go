package e2e_test

import (
	"strings"
	"testing"

	"dcm/internal/testkit/e2e"
)

// Tests of the container itself, without dcm.

func TestContainer_Reboot(t *testing.T) {
	t.Parallel()
	requireContainers(t)
	agent := build(t, "./agent")
	for _, recipe := range suites() {
		t.Run(recipe.Suite, func(t *testing.T) {
			t.Parallel()
			m := boot(t, recipe, agent, e2e.Seed{"/etc/seeded": {Content: []byte("seed")}})
			m.put("/etc/written", "kept")
			m.run("touch /run/volatile")
			before := m.run("cat /proc/sys/kernel/random/boot_id")
			m.reboot()
			if after := m.run("cat /proc/sys/kernel/random/boot_id"); after == before {
				t.Errorf("boot id after a reboot: want another one, got %s", after)
			}
			if got := m.run("cat /etc/seeded /etc/written"); got != "seedkept" {
				t.Errorf("files after a reboot: want both, got %q", got)
			}
			if got := m.run("ls /run"); strings.Contains(got, "volatile") {
				t.Errorf("/run after a reboot: want it empty, got %s", got)
			}
		})
	}
}
