package e2e_test

import (
	"slices"
	"strings"

	"dcm/internal/engine/runstate"
)

// discovery: an unlisted service has a GPU open.
func discovery(m machine) {
	const unit = "inference.service"
	m.put("/etc/systemd/system/"+unit, "[Service]\nExecStart=/usr/local/bin/gpu-client\n")
	m.run("systemctl daemon-reload && systemctl start inference && systemd-run --quiet --unit=training gpu-client")
	for command, want := range map[string]string{
		"dcm check 2>&1 >/dev/null":                   unit,
		"dcm holders --units | grep inference":        unit + " no ",
		"dcm holders --units | grep training":         training + " unfit ",
		"dcm holders --units | grep gpuagent":         agentUnit + " listed ",
		"dcm holders --units --json | grep inference": `"unit": "` + unit + `"`,
	} {
		if text := strings.Join(strings.Fields(m.run(command)), " "); !strings.Contains(text, want) {
			m.t.Errorf("%s: want %q, got:\n%s", command, want, text)
		}
	}
	if text := m.run("dcm check 2>&1"); strings.Contains(text, training) {
		m.t.Errorf("dcm check: want no line about a user's job, got:\n%s", text)
	}

	// It is named and blocks the change.
	before := m.units(exporter, agentUnit, dashboard, unit)
	m.put(settings, selecting("spx-fast"))
	m.await("/run/dcm/state.json", `"phase": "waiting"`, unit)
	m.untouched(before)
	if warnings := m.account().Warnings; !strings.Contains(strings.Join(warnings, "\n"), unit) {
		m.t.Errorf("warnings: want one about %s, got %q", unit, warnings)
	}

	// Included, but the user's job still holds a GPU: no restart would help.
	include := strings.Replace(selecting("spx-fast"), "[clients]", "[clients]\ndiscover = \"include\"", 1)
	m.put(settings, include)
	m.await("/run/dcm/state.json", `"phase": "waiting"`, settings+":1")
	m.untouched(before)
	ends := m.newEntries("--unit=dcm DCM_UNIT=dcm-apply.service")
	m.run("systemctl stop training")
	m.applied("spx-fast")
	m.has(spx)
	m.bounced(before)
	// The first run already restarts the service: none is refused because of it.
	runs := slices.DeleteFunc(ends(), func(e entry) bool { return e["DCM_TOOK"] == nil })
	if len(runs) != 1 {
		m.t.Errorf("runs: want one, got %v", runs)
	}
	m.until("grep -q dcm-apply.service /run/systemd/generator/" + unit + ".d/50-dcm.conf") // PID 1 may be reloading
	// The run stopped dashboard with gpuagent, so the daemon starts it after the run.
	want := runstate.Client{Unit: unit, Before: "active", Now: "active", Sub: "running", Result: "success", Back: true,
		Invocation: m.show(unit, "InvocationID")["InvocationID"]}
	if c := m.state().Clients; len(c) != 6 || c[5].Unit != dashboard || c[4] != want {
		m.t.Errorf("clients: %+v", c)
	}

	// It is restarted like other clients, in the same transaction.
	before = m.units(exporter, agentUnit, dashboard, unit)
	m.put(settings, strings.Replace(include, "spx-fast\"", "cpx-fast\"", 1))
	m.applied("cpx-fast")
	m.bounced(before)

	// If it is stopped, the daemon's next start forgets it. With discovery off it forgets all.
	m.run("systemctl restart dcm && ls /run/dcm/discovered.json")
	m.run("systemctl stop inference && systemctl restart dcm && ! ls /run/dcm/discovered.json /run/systemd/generator/" + unit + ".d")
	m.run("systemctl start inference")
	m.put(settings, include)
	m.applied("spx-fast")
	m.run("ls /run/systemd/generator/" + unit + ".d/50-dcm.conf")
	m.put(settings, selecting("spx-fast"))
	m.run("systemctl restart dcm && ! ls /run/dcm/discovered.json /run/systemd/generator/" + unit + ".d")
	m.run("systemctl stop inference")
}

// support: the archive has dcm's data and no data of other programs.
func support(m machine) {
	m.put("/etc/systemd/system/dcm-apply.service.d/hook.conf", "[Service]\nEnvironment=TOKEN=hunter2\nExecStartPre=+/bin/true --password hunter2\n")
	m.put("/etc/systemd/system/gpuagent.service.d/token.conf", "[Service]\nEnvironment=TOKEN=hunter2\n")
	m.run("systemctl daemon-reload")
	m.put(settings, selecting("spx-fast"))
	m.applied("spx-fast")
	m.run("journalctl --sync; rm -rf /root/r; mkdir /root/r; cd /root/r && dcm report --bundle && tar -xzf *.tar.gz --strip-components=1 && rm *.tar.gz")
	contents := m.run("cat /root/r/CONTENTS.txt")
	m.t.Log(contents)
	for _, text := range []string{"(missing: no", "deadline", "exit status"} {
		if strings.Contains(contents, text) {
			m.t.Errorf("parts are missing in the archive: %s", text)
		}
	}
	for file, text := range map[string]string{
		"status.txt":               "spx-fast",
		"report.txt":               "0000:05:00.0",
		"check.txt":                "spx-fast",
		"gpus.json":                `"address": "0000:e5:00.0"`,
		"holders.json":             agentUnit,
		"units.txt":                "Id=" + agentUnit,
		"journal.txt":              "spx-fast",
		"journal.json":             `"DCM_GPU":"0000:05:00.0"`,
		"version.txt":              "systemd 257",
		"files/run/dcm/state.json": `"phase": "in-sync"`,
		"files" + settings:         `profile = "spx-fast"`,
	} {
		if got := m.run("cat /root/r/" + file); !strings.Contains(got, text) {
			m.t.Errorf("%s: want %q, got:\n%s", file, text, got)
		}
	}
	if found := m.try("grep -rl hunter2 /root/r").Stdout; found != "" {
		m.t.Errorf("secret of another unit: want it in no file, got %s", found)
	}
	// An unprivileged user gets the readable files, and a list of the others.
	if r := m.try("cd /tmp && setpriv --reuid=65534 --regid=65534 --clear-groups dcm report --bundle - | tar -xzO --wildcards '*/CONTENTS.txt'"); r.Code != 0 || !strings.Contains(r.Stdout, "journal.txt") {
		m.t.Errorf("dcm report --bundle of a user: want an archive, got %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	m.run("rm -r /etc/systemd/system/*.service.d && systemctl daemon-reload")
}
