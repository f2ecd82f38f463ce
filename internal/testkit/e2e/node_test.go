package e2e_test

import "testing"

// TestNode is what a user sees of dcm on a real systemd, on each Debian.
func TestNode(t *testing.T) {
	t.Parallel()
	requireContainers(t)
	p := buildProduct(t)
	t.Run("flow", func(t *testing.T) { flow(t, p) })
	t.Run("scenarios", func(t *testing.T) { scenarios(t, p) })
	t.Run("library", func(t *testing.T) { library(t, p) })
	t.Run("operations", func(t *testing.T) { operations(t, p) })
	t.Run("faults", func(t *testing.T) { faults(t, p) })
	t.Run("scale", func(t *testing.T) { scale(t, p) })
	t.Run("lease scale", func(t *testing.T) { leaseScale(t, p) })
	t.Run("privileges", func(t *testing.T) { privileges(t, p) })
	t.Run("packages", func(t *testing.T) { packages(t, p) })
	t.Run("partitions", func(t *testing.T) { partitions(t, p) })
	t.Run("unconfined", func(t *testing.T) { withoutPrograms(t, p) })
	t.Run("containers", func(t *testing.T) { containers(t, p) })
	t.Run("leases", func(t *testing.T) { leases(t, p) })
	t.Run("surface", func(t *testing.T) { recordSurface(t, p) })
	t.Run("nvidia", func(t *testing.T) { nvidia(t, p) })
	t.Run("random", func(t *testing.T) { random(t, p) })
}

// The scenarios share one container and each begins with the machine made ready.
func scenarios(t *testing.T, p product) {
	t.Parallel()
	list := []struct {
		name string
		run  func(machine)
	}{
		{"clients come back as they were", clientsComeBack},
		{"nothing to do restarts no client", nothingToDo},
		{"an edit is applied without a command", editIsApplied},
		{"an edit is applied without inotify", withoutInotify},
		{"a broken edit changes nothing and is told", brokenEdit},
		{"the oneshot is killed", interrupted("systemctl kill --signal=KILL dcm-apply")},
		{"the daemon is killed", interrupted("systemctl kill --signal=KILL dcm")},
		{"the oneshot is killed in a driver reload", killedInAReload},
		{"the driver was left unloaded", driverLeftUnloaded},
		{"clients that systemd cannot restart", oddClients},
		{"systemd is re-executed in the middle", interrupted("systemctl daemon-reexec")},
		{"the oneshot is restarted in the middle", interrupted("systemctl restart --no-block dcm-apply")},
		{"the oneshot is started with the clients up", startedWithClients},
		{"a foreign process holds the GPUs", foreignHolder},
		{"a start meets a holder", startedWhileBusy},
		{"what cannot be seen holds the driver", unseenHolder},
		{"a client started during a run waits", clientStartedDuringRun},
		{"applies in quick succession", startLimits},
		{"one GPU fails and the others go back", oneGPUFails},
		{"the driver is reloaded behind dcm's back", driverReloaded},
		{"a mode is written behind dcm's back", modeWritten},
		{"a drift is only reported", driftReported},
		{"the kernel tells of a device", kernelTells},
		{"the daemon sees the host's devices", daemonSeesTheHost},
		{"what is wrong is told everywhere", toldEverywhere},
		{"a broken file at boot", brokenAtBoot},
		{"a reboot happens once", rebootOnce},
		{"the driver is reloaded at boot alone", reloadAtBoot},
		{"the driver comes up in the profile's mode", comesUpInTheMode},
		{"selections for good and until reboot", selections},
		{"agents select profiles", agents},
		{"the sandboxes are what they are said to be", sandboxes},
		{"required, the profile comes before the clients or they stay down", required},
	}
	for _, recipe := range suites() {
		t.Run(recipe.Suite, func(t *testing.T) {
			t.Parallel()
			m := install(t, recipe, p)
			for _, s := range list {
				t.Run(s.name, func(t *testing.T) {
					m := m.in(t)
					m.ready()
					s.run(m)
				})
			}
		})
	}
}
