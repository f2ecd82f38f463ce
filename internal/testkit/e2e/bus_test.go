package e2e_test

import (
	"strconv"
	"strings"
	"testing"

	"dcm/internal/gpu/partition"
	"dcm/internal/testkit/e2e"
)

const (
	busName = "org.deviceconfig.Manager1"
	manager = busName + " /org/deviceconfig/Manager1 " + busName
	oneGPU  = "/org/deviceconfig/Manager1/gpu/_0000_05_00_0"

	accessDenied = "org.freedesktop.DBus.Error.AccessDenied"
)

// operators is a polkit rule that permits a group two of three actions.
const operators = `polkit.addRule(function(action, subject) {
    if (!subject.isInGroup("gpu-operators"))
        return polkit.Result.NOT_HANDLED;
    if (action.id == "org.deviceconfig.dcm.apply")
        return polkit.Result.YES;
    if (action.id == "org.deviceconfig.dcm.use" && action.lookup("profile") == "spx-fast")
        return polkit.Result.YES;
    return polkit.Result.NOT_HANDLED;
});
`

// TestBus tests what other users and programs can read and call on the bus.
func TestBus(t *testing.T) {
	t.Parallel()
	requireContainers(t)
	p := buildProduct(t)
	t.Run("root only without polkit", func(t *testing.T) {
		t.Parallel()
		m := install(t, e2e.Trixie(), p)
		m.withUser()
		for _, call := range []string{"Apply", "Reload", "Use s spx-fast"} {
			if got := m.busError("ada", call); got != accessDenied {
				t.Errorf("%s of a user: want %s, got %q", call, accessDenied, got)
			}
		}
		for _, command := range []string{"dcm apply", "dcm use spx-fast"} {
			m.exits(1, ada+command, "polkit")
		}
		for call, want := range map[string]string{"Use s tpx-nps1": "TPX", "Use s cpx-fats": "cpx-fast", `Use s ""`: ""} {
			if got := m.busError("", call); got != busName+".Error.Failed" {
				t.Errorf("%s: want error Failed, got %q", call, got)
			}
			m.exits(1, "busctl call "+manager+" "+call, want)
		}
		if got := m.run("cat " + settings); got != strings.TrimSpace(selecting("cpx-fast")) {
			t.Errorf("configuration after a refused Use: want it unchanged, got: %s", got)
		}
		m.run("busctl call " + manager + " Use s spx-fast && dcm verify")
		m.has(partition.Mode{Compute: partition.SPX, Memory: "NPS1"})
	})
	t.Run("with polkit", func(t *testing.T) {
		t.Parallel()
		m := install(t, e2e.Polkit(), p)
		m.withUser()
		m.everybodyLooks()
		m.polkitDecides()
		m.leaseByPolkit()
		m.busRestarts()
		m.run("systemctl disable dbus-daemon.service || :; systemctl enable --force dbus-broker.service")
		m.reboot()
		if got := m.show("dbus.service", "Id")["Id"]; got != "dbus-broker.service" {
			t.Errorf("Id of dbus.service: want dbus-broker.service, got %s", got)
		}
		m.everybodyLooks()
		m.polkitDecides()
		m.busRestarts()
	})
}

// withUser applies a profile and adds a user without privileges.
func (m machine) withUser() {
	m.t.Helper()
	m.ready()
	m.run("useradd --create-home ada; groupadd gpu-operators")
}

// as runs a command as the user and returns its output.
func (m machine) as(command string) string {
	m.t.Helper()
	return m.run("setpriv --reuid=ada --regid=ada --init-groups sh -c '" + command + "' 2>&1 || :")
}

func (m machine) everybodyLooks() {
	m.t.Helper()
	m.shows(busName+" "+oneGPU+" "+busName+".GPU ComputeMode", `s "CPX"`)
	for command, want := range map[string]string{
		"busctl --no-pager tree " + busName:                                                  "_0000_05_00_0",
		"busctl get-property " + manager + " State":                                          `s "in-sync"`,
		"busctl get-property " + manager + " AppliedProfile":                                 `s "cpx-fast"`,
		"busctl get-property " + busName + " " + oneGPU + " " + busName + ".GPU ComputeMode": `s "CPX"`,
		"busctl call " + manager + ` Plan s ""`:                                              `sa(sasss)as "cpx-fast" 0 0`,
		"busctl call " + manager + " Plan s spx-fast":                                        `"compute" 1 "0000:05:00.0" "CPX" "SPX"`,
		"busctl introspect " + manager[:len(manager)-len(busName)-1]:                         ".LastReport",
		"dcm status --json": `"applied": "cpx-fast"`,
	} {
		got := m.as(command)
		if !strings.Contains(got, want) {
			m.t.Errorf("%s: want %s, got:\n%s", command, want, got)
		}
		m.t.Logf("$ %s\n%s", command, got)
	}
	// Without the file, the bus still has the profile.
	if got := m.run("unshare --mount sh -c 'mount -t tmpfs none /run/dcm; setpriv --reuid=ada --regid=ada --init-groups dcm status --json'"); !strings.Contains(got, `"phase": "in-sync"`) {
		m.t.Errorf("dcm status without its file: want in-sync, got %s", got)
	}
	if got := m.as("busctl call " + manager + ` Plan s cpx-fats`); !strings.Contains(got, `cpx-fast`) {
		m.t.Errorf("Plan of a misspelled profile: want a suggestion, got %s", got)
	}
	if got := m.as("busctl call org.freedesktop.DBus /org/freedesktop/DBus org.freedesktop.DBus RequestName su org.deviceconfig.Manager1 0"); !strings.Contains(got, "denied") && !strings.Contains(got, "not allowed") && !strings.Contains(got, "refused") {
		m.t.Errorf("RequestName of a user: want a refusal, got %s", got)
	}
}

// shows waits until a property has a value. The daemon updates the bus last.
func (m machine) shows(property, value string) {
	m.t.Helper()
	m.until(`[ "$(busctl get-property $1)" = "$2" ]`, property, value)
}

func (m machine) polkitDecides() {
	m.t.Helper()
	m.run("gpasswd --delete ada gpu-operators || :; rm -f /etc/polkit-1/rules.d/50-dcm.rules; systemctl restart polkit")
	before := m.units(exporter, agentUnit, dashboard, "dcm-apply.service")
	for _, command := range []string{"busctl call " + manager + " Apply", "busctl call " + manager + " Reload", "busctl call " + manager + " Use s spx-fast", "dcm apply", "dcm use spx-fast"} {
		if got := m.as(command + " && echo DONE"); strings.Contains(got, "DONE") {
			m.t.Errorf("%s: want a refusal, got %s", command, got)
		} else {
			m.t.Logf("$ %s\n%s", command, got)
		}
	}
	m.untouched(before)

	m.run("mkdir -p /etc/polkit-1/rules.d; gpasswd --add ada gpu-operators")
	m.put("/etc/polkit-1/rules.d/50-dcm.rules", operators)
	m.run("systemctl restart polkit")
	if got := m.as("busctl call " + manager + " Apply"); got != `s "in-sync"` {
		m.t.Errorf("Apply with authorisation: want in-sync, got %s", got)
	}
	m.untouched(before)
	for _, command := range []string{"busctl call " + manager + " Reload", "dcm use cpx-fast"} {
		if got := m.as(command + " && echo DONE"); strings.Contains(got, "DONE") {
			m.t.Errorf("%s: want a refusal, got %s", command, got)
		}
	}
	got := m.as("dcm use spx-fast && echo DONE")
	if !strings.Contains(got, "spx-fast") || !strings.HasSuffix(got, "DONE") {
		m.t.Errorf("dcm use with authorisation: want success, got %s", got)
	}
	m.t.Logf("$ dcm use spx-fast\n%s", got)
	m.has(partition.Mode{Compute: partition.SPX, Memory: "NPS1"})
	delete(before, "dcm-apply.service")
	m.bounced(before)
	m.run("dcm use cpx-fast && systemctl is-active dcm")
}

// leaseByPolkit: a user outside of the group dcm gets a lease if polkit authorises it.
func (m machine) leaseByPolkit() {
	m.t.Helper()
	for _, tt := range []struct{ answer, want, action string }{
		{"NOT_HANDLED", accessDenied, "org.deviceconfig.dcm.lease"},
		{"NO", accessDenied, "org.deviceconfig.dcm.lease"},
		{"YES", "", "DONE"},
	} {
		m.put("/etc/polkit-1/rules.d/50-dcm.rules", `polkit.addRule(function(action, subject) {
    return action.id == "org.deviceconfig.dcm.lease" ? polkit.Result.`+tt.answer+` : polkit.Result.NOT_HANDLED;
});
`)
		m.run("systemctl restart polkit")
		if got := m.as("dcm run -- true && echo DONE"); !strings.Contains(got, tt.action) || strings.Contains(got, "DONE") != (tt.answer == "YES") {
			m.t.Errorf("dcm run with polkit's answer %s: want %q, got %s", tt.answer, tt.action, got)
		}
		if got := m.busError("ada", "Acquire a{sv} 0"); tt.want != "" && got != tt.want {
			m.t.Errorf("Acquire with polkit's answer %s: want %s, got %q", tt.answer, tt.want, got)
		}
	}
}

// busRestarts: the daemon works without a bus, and connects to the next one.
func (m machine) busRestarts() {
	m.t.Helper()
	pid := m.show("dcm.service", "MainPID")["MainPID"]
	m.run("systemctl kill --signal=KILL dbus")
	m.put(settings, selecting("spx-fast"))
	m.applied("spx-fast")
	m.shows(manager+" AppliedProfile", `s "spx-fast"`)
	if now := m.show("dcm.service", "MainPID")["MainPID"]; now != pid {
		m.t.Errorf("main process after a restart of the bus: want %s, got %s", pid, now)
	}
	m.put(settings, selecting("cpx-fast"))
	m.applied("cpx-fast")
	// Read the private memory of the daemon (RssAnon) while it works.
	if kib, err := strconv.Atoi(m.run("sed -n 's/^RssAnon:[^0-9]*\\([0-9]*\\) kB/\\1/p' /proc/" + pid + "/status")); err != nil || kib > 9<<10 {
		m.t.Errorf("the daemon has %d KiB of its own in memory (%v), want at most 9 MiB", kib, err)
	} else {
		m.t.Logf("the daemon has %d KiB of its own in memory", kib)
	}
	// Without it the program would not connect to the new bus, and would delay a reboot.
	m.run("systemctl restart systemd-logind")
}
