package e2e_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/status"
	"dcm/internal/gpu/nvml/standin"
	"dcm/internal/gpu/partition"
)

// eachGPU declares a worker for each of eight GPUs, without those of the named GPUs, and an observer of all.
func eachGPU(profile string, without ...int) string {
	text := "profile = \"" + profile + "\"\n[[client]]\nunit = \"watcher\"\nobserver = true\n"
	for i := range 8 {
		if slices.Contains(without, i) {
			continue
		}
		text += fmt.Sprintf("[[client]]\nunit = \"worker@%d\"\ngpus = [%[1]d]\n", i)
	}
	return text + "[profiles.same]\ncompute = \"SPX\"\nmemory = \"NPS1\"\n" + split("third", 3)
}

// worker holds a partition of its GPU open, which attaches it to this GPU in KFD. It does not execute another
// program afterwards: KFD detaches a process at the end of its address space. Its start is recorded.
const worker = `[Service]
ExecStart=sh -c 'exec 3</dev/dcm/worker-%i/render0 4</dev/kfd; echo $$$$ >>/run/worker-%i; sleep infinity & wait'
`

// singleGPUs tests changes of single GPUs.
func singleGPUs(t *testing.T, p product) {
	t.Parallel()
	for _, recipe := range suites() {
		t.Run(recipe.Suite, func(t *testing.T) {
			t.Parallel()
			m := install(t, recipe, p)
			m.put("/etc/systemd/system/worker@.service", worker)
			m.put("/etc/systemd/system/watcher.service", holder)
			all := "watcher " + strings.Join(workers(), " ")
			m.run("systemctl disable --now amd-metrics-exporter gpuagent; systemctl daemon-reload; systemctl add-wants multi-user.target " + all)
			m.run("systemctl stop dcm") // so that no daemon ends while it takes the edit
			m.put(settings, eachGPU("same"))
			m.run("systemctl start dcm && systemctl start " + all + " && systemctl is-active " + all)
			for _, s := range []struct {
				name string
				run  func(machine)
			}{
				{"first change after an installation", firstChange},
				{"affected units restart", affectedRestart},
				{"service fails during a change", startFails},
				{"one GPU of two fails", oneOfTwoFails},
				{"required GPU fails", requiredGPUFails},
				{"holder blocks its GPU only", heldGPU},
				{"holder ends after another GPU has failed", heldAndFailed},
				{"each GPU changes when idle", leasedGPU},
				{"daemon killed during a change", killedDuringChange},
				{"change requested in part", requestedInPart},
				{"budget kept by random changes", budgetKept},
				{"client that never becomes ready", neverReady},
				{"one GPU after another", oneAfterAnother},
				{"change refused by a budget", budgetRefuses},
				{"older driver checks all GPUs", olderBusyCheck},
				{"memory allocation of a newer kernel", memoryAllocation},
				{"modes made for leases", modesMade},
			} {
				t.Run(s.name, func(t *testing.T) { s.run(m.in(t)) })
			}
		})
	}
}

// singleMIG tests changes of MIG instances of one GPU. The nodes have no driver, so no process holds
// them open.
func singleMIG(t *testing.T, p product) {
	t.Parallel()
	lib, err := standin.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, recipe := range suites() {
		t.Run(recipe.Suite, func(t *testing.T) {
			t.Parallel()
			m := nvidiaNode(t, recipe, p, "h100-8", lib, driverlessNVIDIA())
			t.Run("instances stay", func(t *testing.T) { instancesKept(m.in(t)) })
			t.Run("daemon killed during a change", func(t *testing.T) { killedDuringMIGChange(m.in(t)) })
			t.Run("no room next to an instance in use", func(t *testing.T) { noRoom(m.in(t)) })
			t.Run("fewest units restart", func(t *testing.T) { fewestRestart(m.in(t)) })
			t.Run("instances made for leases", func(t *testing.T) { instancesMade(m.in(t)) })
			t.Run("an instance in use after its lease", func(t *testing.T) { madeInUse(m.in(t)) })
			t.Run("killed while an instance is made", func(t *testing.T) { madeKilled(m.in(t)) })
			t.Run("instances made for services", func(t *testing.T) { madeForServices(m.in(t)) })
			t.Run("profile changed while services have instances", func(t *testing.T) { madeAndChanged(m.in(t)) })
			t.Run("killed while a service gets its instance", func(t *testing.T) { madeServiceKilled(m.in(t)) })
			t.Run("services get their instances after a reboot", func(t *testing.T) { madeAfterReboot(m.in(t)) })
		})
	}
}

// requestedInPart: the daemon has requested the run, and was killed before it requested the restart of a
// unit. The run changes nothing, and the next daemon requests the whole change.
func requestedInPart(m machine) {
	m.run("dcm use same; systemctl stop dcm")
	s := m.state()
	s.Phase, s.Change = runstate.Applying, &runstate.Change{GPUs: []partition.Address{"0000:65:00.0"}, Stopped: map[string]string{"worker@3.service": m.show("worker@3.service", "InvocationID")["InvocationID"]}}
	text, err := json.Marshal(s)
	if err != nil {
		m.t.Fatal(err)
	}
	m.put("/run/dcm/state.json", string(text))
	m.put(settings, eachGPU("third"))
	before, modes := m.units(workers()...), m.modes()
	m.run("systemctl restart dcm-gate; " + waitFor("systemctl is-failed --quiet dcm-change"))
	m.untouched(before)
	if diff := cmp.Diff(modes, m.modes()); diff != "" {
		m.t.Errorf("modes (-before +after):\n%s", diff)
	}
	affected := m.units("worker@3.service")
	delete(before, "worker@3.service")
	m.run("systemctl start dcm")
	m.untouched(before)
	m.bounced(affected)
	m.exits(0, "dcm status")
}

// someStay are services with an instance each of GPU 3, and of every other GPU a worker.
func someStay(profile string) string {
	text := "profile = \"" + profile + "\"\n"
	for i := range 8 {
		if i != 3 {
			text += fmt.Sprintf("[[client]]\nunit = \"worker@%d\"\ngpus = [%[1]d]\n", i)
		}
	}
	for unit, mode := range map[string]string{"kept@a": "3g.40gb", "kept@b": "2g.20gb"} {
		text += fmt.Sprintf("[[reservation]]\nunit = %q\npartitions = 1\nmode = %q\ngpus = [3]\n", unit, mode)
	}
	text += "[[reservation]]\nunit = \"moved\"\npartitions = 1\ngpus = [3]\n"
	for name, rest := range map[string]string{"before": `"1g.10gb" = 2`, "after": `"1g.20gb" = 1`} {
		text += fmt.Sprintf("[[profiles.%[1]s.group]]\nmig = { \"3g.40gb\" = 1, \"2g.20gb\" = 1, %s }\ngpus = [3]\n[[profiles.%[1]s.group]]\nmig = { \"3g.40gb\" = 2 }\ncount = \"rest\"\n", name, rest)
	}
	return text
}

// instancesKept: two instances of GPU 3 stay, with their nodes and users. Only the service of a destroyed
// instance is restarted.
func instancesKept(m machine) {
	for _, name := range []string{"worker@", "kept@", "moved"} {
		m.put("/etc/systemd/system/"+name+".service", holder)
	}
	all := append(workers(3), "kept@a.service", "kept@b.service")
	m.run("systemctl disable --now amd-metrics-exporter gpuagent; systemctl daemon-reload")
	m.put(settings, someStay("before"))
	m.run("systemctl restart dcm && systemctl start moved.service " + strings.Join(all, " "))
	kept, affected, nodes := m.units(all...), m.units("moved.service"), m.deal()
	m.run("dcm use after")
	m.untouched(kept)
	m.bounced(affected)
	for _, name := range []string{"kept-a", "kept-b"} {
		if now := m.deal(); len(now.of(name)) != 1 || !slices.Equal(now.of(name), nodes.of(name)) {
			m.t.Errorf("%s has %q, want %q as before", name, now.of(name), nodes.of(name))
		}
	}
	m.exits(0, "dcm status")
}

// threeUsers are services with an instance each of GPU 3, without the named ones.
func threeUsers(profile string, without ...string) string {
	text := "profile = \"" + profile + "\"\n"
	for _, unit := range []string{"kept@a", "kept@b", "moved"} {
		if !slices.Contains(without, unit+".service") {
			text += fmt.Sprintf("[[reservation]]\nunit = %q\npartitions = 1\ngpus = [3]\n", unit)
		}
	}
	text += "[[client]]\nunit = \"worker@0\"\ngpus = [0]\n"
	for name, instances := range map[string]string{"three": `"1g.10gb" = 3`, "wide": `"1g.10gb" = 2, "3g.40gb" = 1`} {
		text += fmt.Sprintf("[[profiles.%[1]s.group]]\nmig = { %[2]s }\ngpus = [3]\n[[profiles.%[1]s.group]]\nmig = { \"3g.40gb\" = 2 }\ncount = \"rest\"\n", name, instances)
	}
	return text
}

// fewestRestart: a change has to destroy one of three equal instances. It destroys the only one without
// a user, although it has the lowest slot, and restarts no unit.
func fewestRestart(m machine) {
	all := []string{"kept@a.service", "kept@b.service", "moved.service"}
	m.put(settings, threeUsers("three"))
	m.run("dcm apply && systemctl start " + strings.Join(all, " "))
	lowest := ""
	for _, r := range m.deal().Reservations {
		if slices.Contains(r.Partitions, runstate.PartName("0000:61:00.0", 0)) {
			lowest = r.Unit
		}
	}
	m.run("systemctl stop " + lowest)
	m.put(settings, threeUsers("three", lowest))
	m.run("dcm apply")
	kept := m.units(slices.DeleteFunc(append(all, "worker@0.service"), func(unit string) bool { return unit == lowest })...)
	plan := m.exits(2, "dcm plan wide")
	if !strings.Contains(plan.Stdout, "destroy 1g.10gb@0 of 0000:61:00.0, keep 1g.10gb@1, 1g.10gb@2") || !strings.Contains(plan.Stdout, "No unit would be restarted") {
		m.t.Errorf("plan: want the instance of %s destroyed and no unit restarted, got\n%s", lowest, plan.Stdout)
	}
	m.run("dcm use wide")
	m.untouched(kept)
	if r := m.lastRun(); len(r.Steps) != 2 || r.Steps[1].String() != "create 3g.40gb@4 on 0000:61:00.0, keep 1g.10gb@1, 1g.10gb@2" {
		m.t.Errorf("steps: want two, the second creates 3g.40gb@4, got %v", r.Steps)
	}
	m.exits(0, "dcm status")
}

// workers returns the names of the eight services, without those of the named GPUs.
func workers(without ...int) (units []string) {
	for i := range 8 {
		if !slices.Contains(without, i) {
			units = append(units, fmt.Sprintf("worker@%d.service", i))
		}
	}
	return units
}

// affectedRestart: a change of GPU 3 restarts its worker and the observer, and no other unit.
func affectedRestart(m machine) {
	kept, affected := m.units(workers(3)...), m.units("worker@3.service", "watcher.service")
	stops := m.newEntries("_PID=1 JOB_TYPE=stop")
	out := m.run("dcm use third")
	m.untouched(kept)
	m.bounced(affected)
	for _, e := range stops() {
		if unit, _ := e["UNIT"].(string); strings.HasPrefix(unit, "worker@") && unit != "worker@3.service" {
			m.t.Errorf("stop of %s in the journal", unit)
		}
	}
	if links := m.run("ls /dev/dcm/worker-3 | wc -l; ls /dev/dcm/worker-4 | wc -l"); links != "8\n1" {
		m.t.Errorf("links of worker 3 and 4: want 8 and 1, got %q", links)
	}
	if s := m.state(); s.Change == nil || len(s.Change.GPUs) != 1 || len(s.Change.Kept) != 7 {
		m.t.Errorf("change in the state: %+v; %s", s.Change, out)
	}
	m.exits(0, "dcm status")
}

// oneOfTwoFails: with unit-of-change = "gpu" a GPU that fails is undone alone, and only its worker is
// restarted by the next attempt.
func oneOfTwoFails(m machine) {
	m.run("dcm use same")
	m.put(settings, eachGPU("same")+"[apply]\nunit-of-change = \"gpu\"\n"+split("pair", 4, 5))
	m.run("systemctl reload dcm")
	kept, affected := m.units(workers(4, 5)...), m.units(workers(0, 1, 2, 3, 6, 7)...)
	m.run("dcm-sim fault --gpu 0000:a6:00.0 --op compute --errno EINVAL")
	m.exits(1, "dcm use pair")
	m.untouched(kept)
	m.bounced(affected)
	m.healthIs(status.Partial)
	if r := m.lastRun(); r.Result != runstate.Partial || m.run("ls /dev/dcm/worker-4 | wc -l; ls /dev/dcm/worker-5 | wc -l") != "8\n1" {
		m.t.Errorf("run: want partial with GPU 4 alone in CPX, got %s, %+v", r.Result, r.GPUs)
	}
	kept, affected = m.units(workers(5)...), m.units("worker@5.service")
	m.run("dcm apply")
	m.untouched(kept)
	m.bounced(affected)
	m.exits(0, "dcm status")
}

// heldGPU: with unit-of-change = "gpu" a process on GPU 4 blocks the change of GPU 4 alone. When it has
// ended, GPU 4 changes too. With "node" everything waits for it.
func heldGPU(m machine) {
	m.run("dcm use same")
	m.put(settings, eachGPU("same")+"[apply]\nunit-of-change = \"gpu\"\n"+split("pair", 4, 5))
	m.run("systemctl reload dcm; systemd-run --quiet --unit=holder --property=DeviceAllow= sh -c 'exec 3<'$(readlink -f /dev/dcm/worker-4/render0)'; exec sleep infinity'; " +
		waitFor("dcm holders | grep -q holder.service"))
	m.run("systemctl stop worker@4")
	plan := m.try("dcm plan pair")
	if plan.Code != 2 || !strings.Contains(plan.Stdout, "0000:85:00.0 would stay as it is now") || !strings.Contains(plan.Stdout, "holder.service") {
		m.t.Errorf("plan: want exit status 2, GPU 4 and its holder, got %d: %s", plan.Code, plan.Stdout)
	}
	kept, affected := m.units(append(workers(4, 5), "holder.service")...), m.units("worker@5.service")
	m.exits(75, "dcm use pair")
	m.untouched(kept)
	m.bounced(affected)
	m.healthIs(status.Partial)
	if r := m.lastRun(); r.Result != runstate.Partial || m.run("ls /dev/dcm/worker-4 | wc -l; ls /dev/dcm/worker-5 | wc -l") != "1\n8" {
		m.t.Errorf("run: want partial with GPU 5 alone in CPX, got %s, %+v", r.Result, r.GPUs)
	}
	kept = m.units(workers(4)...)
	m.run("systemctl stop holder")
	m.await("/run/dcm/state.json", `"phase": "in-sync"`, `"profile": "pair"`)
	m.untouched(kept)
	m.run("systemctl start worker@4")
	m.exits(0, "dcm status")
}

// leasedGPU: a lease on GPU 4 does not delay the change of GPU 5. GPU 4 changes when the lease ends, and
// until then no other lease of GPU 4 is given. Leases of GPU 6, which does not change, are.
func leasedGPU(m machine) {
	m.run("systemctl stop worker@4 worker@6")
	m.put(settings, eachGPU("six", 4, 6)+"[apply]\nunit-of-change = \"gpu\"\n"+split("six", 6)+split("pair", 4, 5, 6))
	m.run(`systemctl reload dcm; dcm use six; rm -f /run/held; setsid dcm run --mode SPX/NPS1 -- sh -c 'exec 3</dev/dri/renderD160 4</dev/kfd; echo held >/run/held; exec sleep infinity' >/dev/null 2>&1 </dev/null &`)
	m.await("/run/held", "held")
	kept, affected := m.units(workers(4, 5, 6)...), m.units("worker@5.service", "watcher.service")
	m.run(`rm -f /run/idle; setsid sh -c 'dcm apply pair --when-idle; echo exit status $?' >/run/idle 2>&1 </dev/null &`)
	m.await("/run/idle", "Waiting for the end of dcm-lease-0-")
	m.untouched(kept)
	m.bounced(affected)
	if links := m.run("ls /dev/dcm/worker-5 | wc -l"); links != "8" {
		m.t.Errorf("links of worker 5: want 8, got %s", links)
	}
	const who = "dcm apply pair --when-idle"
	m.exits(75, "dcm run --mode SPX/NPS1 -- true", who)
	m.run("dcm run --mode CPX/NPS1 -- true")
	if warnings := strings.Join(m.account().Warnings, "\n"); !hasAll(warnings, who, "0000:85:00.0") || strings.Contains(warnings, "0000:c5:00.0") {
		m.t.Errorf("warnings: want the wait of %s for GPU 4 alone, got %q", who, warnings)
	}
	if a := m.account(); a.GPUs[4].Change() != "left" || a.GPUs[5].Change() != "applied" {
		m.t.Errorf("GPU 4 is %s and GPU 5 %s, want left and applied", a.GPUs[4].Change(), a.GPUs[5].Change())
	}
	if left := m.run("busctl get-property org.deviceconfig.Manager1 /org/deviceconfig/Manager1/gpu/_0000_85_00_0 org.deviceconfig.Manager1.GPU Left"); left != "b true" {
		m.t.Errorf("property Left of GPU 4: want true, got %s", left)
	}
	kept = m.units(workers(4, 6)...)
	m.run("systemctl stop 'dcm-lease-*.scope'")
	m.await("/run/idle", "exit status 0")
	if out := m.run("cat /run/idle"); strings.Contains(out, "warning") {
		m.t.Errorf("%s: want no warning about its own wait, got %q", who, out)
	}
	m.untouched(kept)
	m.run("dcm run --mode CPX/NPS1 -n 16 -- true")
	m.exits(0, "dcm status")
	m.run("dcm apply --clear")
	m.put(settings, eachGPU("same"))
	m.run("systemctl reload dcm; dcm use same; systemctl start worker@4 worker@6")
}

// split returns a profile with CPX on the named GPUs and SPX on the others.
func split(name string, gpus ...int) string {
	return fmt.Sprintf("[profiles.%[1]s]\nmemory = \"NPS1\"\n[[profiles.%[1]s.group]]\ncompute = \"CPX\"\ngpus = %[2]s\n[[profiles.%[1]s.group]]\ncompute = \"SPX\"\ncount = \"rest\"\n",
		name, strings.ReplaceAll(fmt.Sprint(gpus), " ", ", "))
}
