package e2e_test

import "strings"

// foreignText: a process and a file whose names are no text, and steer terminals,
// are told of everywhere, and tell nobody anything but their names.
func foreignText(m machine) {
	const (
		comm = `\xff\x1b[31m`
		file = `/etc/dcm/dcm.toml.d/z\xff.toml`
	)
	m.run(`dbus-monitor --system "type='signal',interface='org.freedesktop.DBus.Properties',path='/org/deviceconfig/Manager1'" >/run/signals 2>&1 & echo $! >/run/monitor`)
	m.await("/run/signals", "NameAcquired")
	m.run(`odd=$(printf '/run/\377\033[31m'); cp /bin/sleep "$odd"; mount -o remount,exec /run || :
		(setsid sh -c 'exec 9</dev/kfd; exec "$0" infinity' "$odd" >/dev/null 2>&1 & echo $! >/run/odd)
		for look in $(seq 50); do ! dcm holders | grep -qF '\xff\x1b[31m' || exit 0; done; exit 1`)
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
			m.t.Errorf("%s passes a name on as it is", command)
		}
	}
	if said := m.run(`journalctl --boot --unit=dcm --output=json | grep -F 'xff' | tail -n 1`); !strings.Contains(said, `"MESSAGE":"`) {
		m.t.Errorf("the journal has no text: %s", said)
	}
	if said := m.try("journalctl --boot --unit=dcm --grep='cannot signal'").Stdout; strings.Contains(said, "cannot signal a change") {
		m.t.Errorf("the bus takes no signal: %s", said)
	}
	m.run("kill $(cat /run/odd)")
	m.applied("spx-fast")
	m.run("kill $(cat /run/monitor); rm -f /etc/dcm/dcm.toml.d/z*")
	m.applied("cpx-fast")
}

// told: who asked for a run, and which hook kept it from its end.
func told(m machine) {
	m.run("rm -f /var/lib/dcm/history.jsonl") // others have written mode files before
	m.run("SUDO_UID=65534 dcm use spx-fast")
	m.put(settings, selecting("cpx-fast"))
	m.applied("cpx-fast")
	m.run("systemctl stop amd-metrics-exporter gpuagent dashboard; echo QPX >/sys/bus/pci/devices/0000:05:00.0/current_compute_partition")
	m.await("/var/lib/dcm/history.jsonl", "somebody else has changed the GPUs")
	m.applied("cpx-fast")
	m.run("busctl call " + manager + " Use s spx-fast && systemctl restart dcm-apply")
	list := m.run("dcm report --list")
	m.t.Log(list)
	at := 0
	for _, want := range []string{"dcm use spx-fast, by root (sudo of nobody", "the configuration changed", "somebody else has changed the GPUs", "asked over the bus to use spx-fast, by root", "somebody asked systemd"} {
		next := strings.Index(list[at:], want)
		if next < 0 {
			m.t.Errorf("the history has no %q in its place", want)
			continue
		}
		at += next
	}
	if got := m.run("journalctl --boot --unit=dcm-apply --output=cat DCM_USER=root | tail -n 1"); !strings.Contains(got, "asked over the bus to use spx-fast") {
		m.t.Errorf("by the user the journal finds %q", got)
	}

	m.put("/run/systemd/system/dcm-apply.service.d/hook.conf", "[Service]\nExecStartPre=/bin/false\n")
	m.run("systemctl daemon-reload")
	m.put(settings, selecting("cpx-fast"))
	m.await("/run/dcm/state.json", "dcm-apply.service failed: ExecStartPre=/bin/false: exit status 1")
	m.run("rm -r /run/systemd/system/dcm-apply.service.d; systemctl daemon-reload; systemctl restart dcm")
	m.applied("cpx-fast")

	// A memory mode is one request for all, and in the story of each.
	m.put(settings, selecting("cpx-nps4"))
	m.applied("cpx-nps4")
	for _, gpu := range []string{"0000:05:00.0", "0000:e5:00.0"} {
		if got := m.run("journalctl --boot --unit=dcm-apply --output=cat DCM_GPU=" + gpu); !strings.Contains(got, "requested NPS4 instead of NPS1 for 8 GPUs") || !strings.Contains(got, "reloaded the driver") {
			m.t.Errorf("the story of %s is:\n%s", gpu, got)
		}
	}
}
