package e2e_test

import (
	"encoding/json"
	"strings"

	"dcm/internal/engine/runstate"
)

// foreignText: names of a process and of a file contain invalid text and terminal sequences. All
// interfaces report them escaped.
func foreignText(m machine) {
	const (
		comm = `\xff\x1b[31m`
		file = `/etc/dcm/dcm.toml.d/z\xff.toml`
	)
	m.run(`dbus-monitor --system "type='signal',interface='org.freedesktop.DBus.Properties',path='/org/deviceconfig/Manager1'" >/run/signals 2>&1 & echo $! >/run/monitor`)
	m.await("/run/signals", "NameAcquired")
	m.run(`odd=$(printf '/run/\377\033[31m'); cp /bin/sleep "$odd"; mount -o remount,exec /run || :
		(setsid sh -c 'exec 9</dev/kfd; exec "$0" infinity' "$odd" >/dev/null 2>&1 & echo $! >/run/odd)`)
	m.until(`dcm holders | grep -qF "$1"`, comm)
	m.run(`printf 'profile = "spx-fast"\n' >"$(printf '/etc/dcm/dcm.toml.d/z\377.toml')"`)
	m.await("/run/dcm/state.json", `"phase": "waiting"`, strings.ReplaceAll(comm, `\`, `\\`), strings.ReplaceAll(file, `\`, `\\`))
	m.await("/run/signals", comm, file)
	m.await("/run/dcm/metrics/dcm.prom", `source="`+strings.ReplaceAll(file, `\`, `\\`)+`:1"`, "dcm_blocked 1", "dcm_blocking_processes 1", "dcm_daemon_alive_timestamp_seconds 1")
	m.judged()
	for _, command := range []string{
		"dcm status", "dcm status --json", "dcm holders", "dcm plan", "dcm check", "systemctl status dcm", "busctl get-property " + manager + " Error",
		"journalctl --boot --unit=dcm --unit=dcm-apply --output=json", "cat " + textfile, "cat /run/dcm/state.json",
	} {
		r := m.try(command + " 2>&1 | LC_ALL=C grep -aqP '[\\x00-\\x08\\x0b-\\x1f\\x7f\\xff]'")
		if r.Code != 1 {
			m.t.Errorf("%s: want an escaped name", command)
		}
	}
	if said := m.run(`journalctl --boot --unit=dcm --output=json | grep -F 'xff' | tail -n 1`); !strings.Contains(said, `"MESSAGE":"`) {
		m.t.Errorf("journal: want a message in UTF-8, got %s", said)
	}
	for _, e := range m.entries("--unit=dcm") {
		if e["DCM_OBJECT"] != nil {
			m.t.Errorf("signal on the bus: want no error, got %v", e)
		}
	}
	m.run("kill $(cat /run/odd)")
	m.applied("spx-fast")
	m.run("kill $(cat /run/monitor); rm -f /etc/dcm/dcm.toml.d/z*")
	m.applied("cpx-fast")
}

// causesRecorded: the history has the cause of each run, and the hook that failed it.
func causesRecorded(m machine) {
	m.run("rm -f /var/lib/dcm/history.jsonl") // earlier scenarios wrote mode files by hand
	m.run("SUDO_UID=65534 dcm use spx-fast")
	m.put(settings, selecting("cpx-fast"))
	m.applied("cpx-fast")
	m.run("systemctl stop amd-metrics-exporter gpuagent dashboard; echo QPX >/sys/bus/pci/devices/0000:05:00.0/current_compute_partition")
	m.until(`[ $(dcm report --list --json | grep -c '"id"') = 3 ]`)
	m.applied("cpx-fast")
	m.run("busctl call " + manager + " Use s spx-fast && systemctl restart dcm-apply")
	m.t.Log(m.run("dcm report --list"))
	m.causes()
	last := entry{}
	for _, e := range m.entries("--unit=dcm-apply DCM_USER=root") {
		last = e
	}
	if text, _ := last["DCM_ASKED"].(string); !strings.Contains(text, "spx-fast") {
		m.t.Errorf("last run of root in the journal: want the call of Use with spx-fast, got %v", last)
	}

	m.put("/run/systemd/system/dcm-apply.service.d/hook.conf", "[Service]\nExecStartPre=/bin/false\n")
	m.run("systemctl daemon-reload")
	m.put(settings, selecting("cpx-fast"))
	m.await("/run/dcm/state.json", "dcm-apply.service", "ExecStartPre=/bin/false")
	m.run("rm -r /run/systemd/system/dcm-apply.service.d; systemctl daemon-reload; systemctl restart dcm")
	m.applied("cpx-fast")

	// A memory mode is one request for all GPUs, and is part of the report on each of them.
	m.put(settings, selecting("cpx-nps4"))
	m.applied("cpx-nps4")
	for _, gpu := range []string{"0000:05:00.0", "0000:e5:00.0"} {
		steps := make(map[any]bool)
		for _, e := range m.entries("--unit=dcm-apply DCM_GPU=" + gpu) {
			if e["DCM_STEP"] != "memory" || e["DCM_FROM"] == "NPS1" && e["DCM_TO"] == "NPS4" {
				steps[e["DCM_STEP"]] = true
			}
		}
		if !steps["memory"] || !steps["reload"] {
			m.t.Errorf("steps of %s in the journal: want memory to NPS4 and reload, got %v", gpu, steps)
		}
	}
}

// causes checks the causes of five runs in the history: a command with sudo, an edit, drift, a call over
// the bus and a restart by systemctl.
func (m machine) causes() {
	m.t.Helper()
	var runs []struct {
		Asked runstate.Asked `json:"asked"`
	}
	if err := json.Unmarshal([]byte(m.run("dcm report --list --json")), &runs); err != nil {
		m.t.Fatal(err)
	}
	want := []struct{ cause, user, sudo string }{{"dcm use spx-fast", "root", "nobody"}, {}, {}, {"spx-fast", "root", ""}, {}}
	if len(runs) != len(want) {
		m.t.Fatalf("history: want %d runs, got %+v", len(want), runs)
	}
	seen := make(map[string]bool)
	for i, w := range want {
		got := runs[i].Asked
		if got.Who == nil {
			got.Who = new(runstate.Who)
		}
		if !strings.Contains(got.Why, w.cause) || got.Who.User != w.user || got.Who.Sudo != w.sudo || seen[got.Why] {
			m.t.Errorf("cause of run %d: want %+v and no other run's, got %q by %+v", i, w, got.Why, got.Who)
		}
		seen[got.Why] = true
	}
}
