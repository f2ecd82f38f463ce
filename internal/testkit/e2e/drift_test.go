package e2e_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"dcm/internal/engine/event"
	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/status"
	"dcm/internal/gpu/partition"
)

// leaving returns settings with which dcm only reports drift.
func leaving(profile string) string {
	return selecting(profile) + "[daemon]\ndrift = \"report\"\n"
}

// noticed runs the command and waits until the daemon has entered the phase. It logs the time, which is less than a
// second on an idle machine.
func (m machine) noticed(before runstate.State, command string, phase runstate.Phase) {
	m.t.Helper()
	began := time.Now()
	m.run(command)
	m.await("/run/dcm/state.json", `"phase": "`+string(phase)+`"`)
	s := m.state()
	if !s.Since.After(before.Since) {
		m.t.Errorf("state of the daemon before the change: got %s since %s", s.Phase, s.Since)
	}
	m.t.Logf("%s after %s", phase, s.Since.Sub(began))
}

// seconds returns the number at the beginning of a command's output.
func (m machine) seconds(command string) float64 {
	m.t.Helper()
	text, _, _ := strings.Cut(m.run(command), " ")
	s, err := strconv.ParseFloat(text, 64)
	if err != nil {
		m.t.Fatal(err)
	}
	return s
}

// A driver that is reloaded externally chooses the modes itself: SPX here.
func driverReloaded(m machine) {
	m.run("systemctl stop amd-metrics-exporter gpuagent dashboard")
	m.put("/run/systemd/system/dcm-apply.service.d/count.conf", "[Service]\nExecStartPre=+/bin/sh -c 'echo run >>/run/runs'\n")
	m.run("rm -f /run/runs; systemctl daemon-reload")
	before := m.state()
	done := m.seconds("modprobe -r amdgpu && modprobe amdgpu && date +%s.%N")
	m.await("/run/runs", "run")
	noticed := m.seconds("journalctl --boot --unit=dcm --output=short-unix --lines=1 MESSAGE_ID=" + string(event.Drifted))
	if noticed < done {
		m.t.Errorf("drift: noticed %.1f s before the driver was loaded", done-noticed)
	}
	m.t.Logf("drift noticed %.1f s after the load of the driver", noticed-done)
	m.applied("cpx-fast")
	m.run("dcm verify")
	// The uevents of the repair cause no further one.
	m.run("systemctl reload dcm")
	if got := m.run("cat /run/runs"); got != "run" {
		m.t.Errorf("runs: %q, want one", got)
	}
	if s := m.state(); s.Phase != runstate.InSync || s.PID != before.PID {
		m.t.Errorf("state of the daemon: want in-sync in the same process, got %+v", s)
	}
	m.run("rm -r /run/systemd/system/dcm-apply.service.d && systemctl daemon-reload")
}

// The driver has no event for a write to a mode's file.
func modeWritten(m machine) {
	m.run("systemctl stop amd-metrics-exporter gpuagent dashboard")
	clients := m.units(exporter, agentUnit, dashboard)
	gpu := m.run("ls -d /sys/bus/pci/devices/*/current_compute_partition | tail -1")
	m.run("echo QPX >" + gpu)
	m.await("/run/dcm/state.json", `"phase": "applying"`)
	m.applied("cpx-fast")
	m.run("dcm verify")
	m.untouched(clients) // stopped before and after
	if got := m.lastRun(); got.Result != runstate.Applied || len(got.Steps) != 1 {
		m.t.Errorf("run: want applied after one step, got %s after %d", got.Result, len(got.Steps))
	}
}

// PCIe hot-plug: a GPU is added to the bus while the daemon runs.
func gpuAppears(m machine) {
	const added = "0000:c6:00.0"
	m.run("systemctl stop amd-metrics-exporter gpuagent dashboard")
	m.run("dcm-sim fault --gpu " + added + " --vanish && systemctl restart dcm")
	m.applied("cpx-fast")
	if got := m.modes(); len(got) != 7 {
		m.t.Fatalf("modes without the GPU: %v", got)
	}
	before := m.state()
	m.run("dcm-sim fault --gpu " + added + " --appear")
	m.run(waitFor("grep -q 'CPX' /sys/bus/pci/devices/" + added + "/current_compute_partition"))
	m.applied("cpx-fast")
	m.run("dcm verify")
	m.has(partition.Mode{Compute: partition.CPX, Memory: partition.NPS1})
	if got := m.lastRun(); got.Result != runstate.Applied || len(got.Steps) != 1 {
		m.t.Errorf("run: want applied after one step, got %s after %d", got.Result, len(got.Steps))
	} else if want := "a GPU was added: " + added; got.Asked.Why != want {
		m.t.Errorf("reason of the run: want %q, got %q", want, got.Asked.Why)
	}
	if s := m.state(); s.PID != before.PID {
		m.t.Errorf("process of the daemon: want %d, got %d", before.PID, s.PID)
	}
	shown := slices.ContainsFunc(m.account().GPUs, func(g status.GPU) bool {
		return g.Address == added && g.Managed() && g.AsWanted() && g.Partitions == 8
	})
	if !shown {
		m.t.Errorf("dcm status: no GPU %s with 8 partitions: %+v", added, m.account().GPUs)
	}
}

func driftReported(m machine) {
	m.put(settings, leaving("cpx-fast"))
	m.run("systemctl restart dcm")
	m.run("systemctl stop amd-metrics-exporter gpuagent dashboard")
	before := m.state()
	m.noticed(before, "modprobe -r amdgpu && modprobe amdgpu", runstate.Drifted)
	m.run("systemctl start amd-metrics-exporter gpuagent dashboard")
	clients := m.units(exporter, agentUnit, dashboard, "dcm-apply.service")
	if s := m.state(); s.Error == nil || !hasAll(s.Error.Text, "8", "cpx-fast") {
		m.t.Errorf("the daemon's error: want 8 steps to cpx-fast, got %+v", s.Error)
	}
	m.statusTextIs(m.healthIs(status.Drifted))
	m.untouched(clients)
	delete(clients, "dcm-apply.service")
	m.run("dcm apply && dcm verify")
	m.bounced(clients)
	m.applied("cpx-fast")
}

// kernelTells: the uevent is one of a real device of the host that runs the test. The drift that the
// daemon then finds is unrelated, since the simulated node has no uevent for a reset.
func kernelTells(m machine) {
	devices, err := filepath.Glob("/sys/bus/pci/devices/*/uevent")
	if err != nil || len(devices) == 0 {
		m.t.Skip("skipped: this machine has no PCI device for a uevent")
	}
	clients := m.units(exporter, agentUnit, dashboard)
	before := m.state()
	m.run("dcm-sim reset")
	began := time.Now()
	if err := os.WriteFile(devices[0], []byte("change"), 0); err != nil {
		m.t.Fatal(err)
	}
	m.await("/run/dcm/state.json", `"phase": "applying"`)
	m.t.Logf("noticed after %s", m.state().Since.Sub(began))
	m.applied("cpx-fast")
	m.bounced(clients)
	if s := m.state(); s.PID != before.PID {
		m.t.Errorf("process of the daemon: want the same, got %+v", s)
	}
}

// daemonSeesTheHost: the daemon reads the host's sysfs from its own network namespace, and
// cannot write to it.
func daemonSeesTheHost(m machine) {
	m.run(`pid=$(systemctl show --property=MainPID --value dcm)
		[ "$(stat -c %d /sys)" = "$(nsenter --target "$pid" --mount stat -c %d /sys)" ]
		[ "$(readlink /proc/$pid/ns/net)" != "$(readlink /proc/1/ns/net)" ]`)
	if m.try("nsenter --target $(systemctl show --property=MainPID --value dcm) --mount sh -c ': >/sys/bus/pci/devices/*/current_compute_partition'").Code == 0 {
		m.t.Error("writable mode files for the daemon: want none")
	}
}
