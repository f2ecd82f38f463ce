package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"dcm/internal/gpu/partition"
)

// switchedGPU is the GPU whose mode leases switch, and its first device node.
const (
	switchedGPU   = "0000:65:00.0"
	switchedMinor = "152"
	switchedNode  = "/dev/dri/renderD" + switchedMinor
)

// switchable has a worker on each GPU but the third, whose mode without leases is rest.
func switchable(rest string) string {
	text := "profile = \"switchable\"\n[leases]\nidle-time = \"4s\"\ndwell-time = \"0s\"\n"
	for i := range 8 {
		if i != 3 {
			text += fmt.Sprintf("[[client]]\nunit = \"worker@%d\"\ngpus = [%[1]d]\n", i)
		}
	}
	return text + "[profiles.switchable]\nmemory = \"NPS1\"\n[[profiles.switchable.group]]\ncompute = \"" + rest + "\"\ngpus = [3]\ndynamic = true\n" +
		"[[profiles.switchable.group]]\ncompute = \"SPX\"\ncount = \"rest\"\n"
}

// switching selects the profile. The worker of the GPU and the observer of all are off.
func (m machine) switching() {
	m.t.Helper()
	m.run("systemctl stop worker@3 watcher")
	m.put(settings, switchable("SPX"))
	m.run("systemctl restart dcm && dcm use switchable && dcm status && systemctl is-active " + strings.Join(workers(3), " "))
}

// user starts a lease whose process uses the first of its partitions, and returns the unit.
func (m machine) user(options string) string {
	m.t.Helper()
	m.run("rm -f /tmp/user; setsid dcm run " + options + ` -- sh -c 'first=${DCM_PARTITIONS%% *}; exec 3</dev/dri/renderD$((` + switchedMinor + `+${first##*-})) 4</dev/kfd; echo "$DCM_PARTITIONS" >/tmp/user.parts; sed "s|.*/||" /proc/self/cgroup >/tmp/user.new; mv /tmp/user.new /tmp/user; sleep infinity & wait' >/tmp/user.out 2>&1 </dev/null &`)
	m.await("/tmp/user", ".scope")
	return m.run("cat /tmp/user")
}

// backAtRest waits until no lease has set a mode, and expects that of the profile.
func (m machine) backAtRest() {
	m.t.Helper()
	m.until("ls -R /dev/dcm-made; systemctl list-units --all 'dcm-make@*' 'dcm-keep@*'; journalctl --boot --no-pager --unit='dcm-make@*' | tail; ! ls /dev/dcm-made | grep -q mode_")
	if got := m.modes()[switchedGPU].Compute; got != partition.SPX {
		m.t.Errorf("%s: want SPX, got %s", switchedGPU, got)
	}
}

// modesMade tests leases that switch the mode of a GPU.
func modesMade(m machine) {
	m.switching()
	m.t.Run("shared", func(t *testing.T) { modeShared(m.in(t)) })
	m.t.Run("killed", func(t *testing.T) { modeKilled(m.in(t)) })
	m.t.Run("idle node", func(t *testing.T) { modeProbed(m.in(t)) })
	m.t.Run("reboot", func(t *testing.T) { modeRebooted(m.in(t)) })
}

// modeShared: two leases share a GPU that the first has switched. It is switched back when no lease has
// used it for the idle time.
func modeShared(m machine) {
	kept := m.units(workers(3)...)
	runs := m.newEntries("_SYSTEMD_UNIT=dcm-apply.service + _SYSTEMD_UNIT=dcm-change.service")
	one := m.user("--make CPX -n 3")
	if got, want := m.run("cat /tmp/user.parts"), switchedGPU+"-0 "+switchedGPU+"-1 "+switchedGPU+"-2"; strings.ReplaceAll(got, ",", " ") != want {
		m.t.Errorf("DCM_PARTITIONS: want %s, got %s", want, got)
	}
	two := m.user("--make CPX -n 4")
	if got := m.modes()[switchedGPU].Compute; got != partition.CPX {
		m.t.Fatalf("%s: want CPX, got %s", switchedGPU, got)
	}
	if got := m.run("dcm partitions"); strings.Count(got, one) != 3 || strings.Count(got, two) != 4 || strings.Contains(got, "dcm-make@") {
		m.t.Errorf("dcm partitions: want 3 of %s, 4 of %s and a free one, got\n%s", one, two, got)
	}
	for _, name := range []string{"-0", "-7"} {
		if got := m.run("cat /run/cdi/dcm.json"); !strings.Contains(got, `"`+switchedGPU+name+`"`) {
			m.t.Errorf("CDI: want %s%s, got\n%s", switchedGPU, name, got)
		}
	}
	for _, command := range []string{"dcm status", "dcm status --long", "dcm partitions", "dcm plan", "dcm topology"} {
		m.exits(0, command, "leases")
	}
	m.exits(75, "dcm run --make CPX -n 2 -- true", switchedGPU, one, two)
	m.exits(75, "dcm run --make DPX -- true", "CPX", one, two)
	m.exits(69, "dcm run --make CPX -n 9 -- true", "8 partitions")
	m.exits(69, "dcm run --make TPX -- true", "TPX")
	m.exits(69, "dcm run --mode CPX -- true")

	// A request waits for partitions of the first lease.
	m.run("rm -f /run/waited; setsid sh -c 'dcm run --make CPX -n 3 --wait -- true; echo $? >/run/waited' >/dev/null 2>&1 </dev/null & " + queued(1))
	m.run("dcm release " + one)
	m.await("/run/waited", "0")

	// A change of the mode without leases waits for the leases.
	m.put(settings, switchable("DPX"))
	m.exits(75, "dcm apply", two)
	m.put(settings, switchable("SPX"))
	m.exits(0, "dcm apply")
	m.untouched(kept)
	if n := len(runs()); n > 0 {
		m.t.Errorf("runs: want none, got %d journal entries", n)
	}

	// The GPU is not switched before the idle time is over, and a lease within that time uses it.
	began := time.Now()
	m.run("dcm release " + two)
	m.run("dcm run --make CPX -n 8 -- true")
	m.backAtRest()
	if took := time.Since(began); took < 4*time.Second {
		m.t.Errorf("switched back after %s, want 4s or more", took)
	}
	m.untouched(kept)
	m.exits(0, "dcm status")

	// A process that uses the GPU.
	m.run("systemd-run --quiet --unit=using sh -c 'exec 3<" + switchedNode + " 4</dev/kfd; sleep infinity & wait'; " + waitFor("dcm holders | grep -q using.service"))
	m.exits(75, "dcm run --make CPX -- true", switchedGPU, "using.service")
	m.run("setsid sh -c 'dcm run --make CPX --wait -- true; echo $? >/run/waited' >/dev/null 2>&1 </dev/null & " + queued(1) + "; rm /run/waited; systemctl stop using")
	m.await("/run/waited", "0")
	m.backAtRest()

	// A process that uses the GPU at the end of a lease. Until it ends, the GPU is not switched back.
	m.run("dcm run --make CPX -- systemd-run --quiet --unit=using sh -c 'exec 3<" + switchedNode + " 4</dev/kfd; sleep infinity & wait'; " + waitFor("dcm holders | grep -q using.service"))
	m.until(`ls /dev/dcm-made; systemctl list-units --all 'dcm-make@*'; ls /dev/dcm-made | grep -q mode_ && ! systemctl list-units --all --plain --no-legend 'dcm-make@mode_*' | grep -q .`)
	m.until(`dcm status; dcm status --json | grep -q "$1 stays in CPX: $1 is in use by"`, switchedGPU)
	m.quietBus()
	m.run("systemctl stop using")
	m.backAtRest()

	// An older driver checks all GPUs.
	m.run("dcm-sim check node && rm " + busyCheck)
	m.exits(1, "dcm run --make CPX -- true", "dcm-make@mode_")
	m.backAtRest()
	m.exits(69, "dcm run --make CPX -- true", "older driver")
	m.run("dcm-sim check gpu && rm " + busyCheck)
}

// modeKilled: the daemon, the maker and the client are killed at the steps of a switch and of the switch
// back. The GPU is at rest afterwards.
func modeKilled(m machine) {
	m.run("systemctl start dcm; dcm-sim check gpu; dcm-sim fault --clear")
	kept := m.units(workers(3)...)
	const hang = "dcm-sim fault --gpu " + switchedGPU + " --op compute --hang forever"
	for _, killed := range []string{
		"systemctl kill --signal=KILL dcm; kill -KILL $(cat /run/client)",
		"kill -KILL $(cat /run/client)",
		"systemctl kill --signal=KILL 'dcm-make@*'",
		"systemctl kill --signal=KILL dcm 'dcm-make@*'; kill -KILL $(cat /run/client)",
	} {
		m.run(hang)
		m.run("setsid dcm run --make CPX -- true >/run/client.out 2>&1 </dev/null & echo $! >/run/client; " + waitFor("ls /dev/dcm-made | grep -q CPX"))
		m.run(killed + "; dcm-sim fault --clear")
		m.backAtRest()
		m.run("systemctl start dcm; " + waitFor(noLeases))
	}
	// During the switch back.
	for _, killed := range []string{"systemctl kill --signal=KILL 'dcm-make@*'", "systemctl kill --signal=KILL dcm 'dcm-make@*'"} {
		m.run("dcm run --make CPX -- true && " + hang)
		m.until(`systemctl list-units --all 'dcm-make@*'; systemctl list-units --all --plain --no-legend "dcm-make@*" | grep -q deactivating`)
		m.run(killed + "; dcm-sim fault --clear")
		m.backAtRest()
	}
	// A request during the switch back waits for its end.
	m.run("dcm run --make CPX -- true && dcm-sim fault --gpu " + switchedGPU + " --op compute --hang forever")
	m.until(`systemctl list-units --all 'dcm-make@*'; systemctl list-units --all --plain --no-legend "dcm-make@*" | grep -q deactivating`)
	m.exits(75, "dcm run --make CPX -- true")
	m.exits(0, "dcm run --make CPX --wait -- true & client=$!; dcm-sim fault --clear; wait $client")
	m.backAtRest()
	// The daemon is killed at some time of a lease: the client gets its lease from the next one.
	for delay := range 8 {
		m.run(fmt.Sprintf("dcm run --make CPX --wait -- true & client=$!; sleep 0.%d; systemctl kill --signal=KILL dcm; wait $client", delay))
	}
	m.backAtRest()
	m.untouched(kept)
	m.exits(0, "dcm status")
}
