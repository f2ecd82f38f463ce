package e2e_test

import "testing"

// TestNode tests dcm with systemd on each Debian release.
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
	t.Run("floods", func(t *testing.T) { floods(t, p) })
	t.Run("unconfined", func(t *testing.T) { withoutPrograms(t, p) })
	t.Run("single GPUs", func(t *testing.T) { singleGPUs(t, p) })
	t.Run("single MIG GPU", func(t *testing.T) { singleMIG(t, p) })
	t.Run("containers", func(t *testing.T) { containers(t, p) })
	t.Run("leases", func(t *testing.T) { leases(t, p) })
	t.Run("makes", func(t *testing.T) { makes(t, p) })
	t.Run("fresh", func(t *testing.T) { fresh(t, p) })
	t.Run("accounting", func(t *testing.T) { leasesAccounted(t, p) })
	t.Run("recipes", func(t *testing.T) { recipes(t, p) })
	t.Run("examples", func(t *testing.T) { printedExamples(t, p) })
	t.Run("surface", func(t *testing.T) { recordSurface(t, p) })
	t.Run("nvidia", func(t *testing.T) { nvidia(t, p) })
	t.Run("random", func(t *testing.T) { random(t, p) })
}

// scenarios share one container. Each starts with [machine.ready].
func scenarios(t *testing.T, p product) {
	t.Parallel()
	list := []struct {
		name string
		run  func(machine)
	}{
		{"clients restored after a change", clientsComeBack},
		{"no change restarts no client", nothingToDo},
		{"edit applied by the daemon", editIsApplied},
		{"edit applied without inotify", withoutInotify},
		{"broken edit changes nothing", brokenEdit},
		{"oneshot killed", interrupted("systemctl kill --signal=KILL dcm-apply")},
		{"daemon killed", interrupted("systemctl kill --signal=KILL dcm")},
		{"oneshot killed during driver reload", killedInAReload},
		{"driver left unloaded", driverLeftUnloaded},
		{"clients that systemd cannot restart", oddClients},
		{"daemon-reexec during a run", interrupted("systemctl daemon-reexec")},
		{"oneshot restarted during its run", interrupted("systemctl restart --no-block dcm-apply")},
		{"oneshot started with active clients", startedWithClients},
		{"process holds the GPUs", foreignHolder},
		{"daemon started while GPUs are held", startedWhileBusy},
		{"unseen holder of the driver", unseenHolder},
		{"client start waits for the run", clientStartedDuringRun},
		{"repeated applies within start limits", startLimits},
		{"rollback after one GPU fails", oneGPUFails},
		{"driver reloaded externally", driverReloaded},
		{"mode changed externally", modeWritten},
		{"GPU added to the bus", gpuAppears},
		{"drift reported, not repaired", driftReported},
		{"kernel event of a device", kernelTells},
		{"daemon receives host device events", daemonSeesTheHost},
		{"health on all interfaces", healthShown},
		{"broken configuration at boot", brokenAtBoot},
		{"reboot at most once", rebootOnce},
		{"driver reloaded at boot only", reloadAtBoot},
		{"driver loads in the profile's mode", comesUpInTheMode},
		{"permanent and temporary selections", selections},
		{"agents select profiles", agents},
		{"sandboxes match their documentation", sandboxes},
		{"clients wait for a required profile", required},
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
