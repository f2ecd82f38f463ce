package e2e_test

import (
	"encoding/json"
	"strings"

	"dcm/internal/gpu/partition"
	"dcm/internal/testkit/e2e/remote"
)

const (
	agentsSocket = "/run/dcm-agent/socket"
	agentsFile   = "/etc/dcm/agent.toml"
	agentsOn     = "[agent]\nenabled = true\n"
)

// agentsText is the text of an agent's call: the layouts of the scenarios under other names.
const agentsText = `[profiles.whole]
compute = "SPX"
memory = "NPS1"
[profiles.many]
compute = "CPX"
memory = "NPS1"
[profiles.three]
compute = "TPX"
memory = "NPS1"
`

// agents tests what a program of root can do with the agents' socket. The client is systemd's varlinkctl.
func agents(m machine) {
	if m.try("test -e /run/dcm-agent").Code == 0 {
		m.t.Error("socket of the agents without [agent]: want none")
	}
	m.put(settings, selecting("cpx-fast")+agentsOn)
	m.run("systemctl restart dcm")
	m.opened("active")
	if m.try("command -v varlinkctl").Code != 0 {
		return // an older systemd has no varlinkctl; the socket was checked above
	}
	m.agentsLook()
	m.agentsSelect()
	m.agentsAreRefused()
	m.agentsMeetTrouble()
	m.reboot()
	m.applied("whole")
	m.has(spx)
	m.put(settings, selecting("cpx-fast"))
	m.applied("cpx-fast")
	m.opened("inactive")
	if m.try("test -e "+agentsSocket).Code == 0 {
		m.t.Error("socket after [agent] was removed: want none")
	}
	m.run("rm " + agentsFile)
}

// opened waits until the socket unit has the state.
func (m machine) opened(state string) {
	m.t.Helper()
	m.until(`[ "$(systemctl is-active dcm-agent.socket)" = "$1" ]`, state)
}

// ask calls a method as an agent. The reply, also an error, is on standard output.
func (m machine) ask(method string, parameters map[string]string) remote.Result {
	m.t.Helper()
	text, err := json.Marshal(parameters)
	if err != nil {
		m.t.Fatal(err)
	}
	r := m.try("varlinkctl call --timeout=10min --json=short "+agentsSocket+` org.deviceconfig.Agent1."$1" "$2"`, method, string(text))
	m.t.Logf("%s: exit %d\n%.2000s%s", method, r.Code, r.Stdout, r.Stderr)
	return r
}

func (m machine) useFor(text, profile string) remote.Result {
	m.t.Helper()
	return m.ask("UseFor", map[string]string{"text": text, "profile": profile})
}

func (m machine) agentsLook() {
	m.t.Helper()
	if got := m.run("stat --format=%a:%U /run/dcm-agent " + agentsSocket + " | xargs"); got != "700:root 600:root" {
		m.t.Errorf("mode and owner of the socket: want 700:root 600:root, got %s", got)
	}
	if got := m.run("varlinkctl info " + agentsSocket); !strings.Contains(got, "org.deviceconfig.Agent1") || !strings.Contains(got, "Product: dcm") {
		m.t.Errorf("varlinkctl info: want the interface and the product, got:\n%s", got)
	}
	if got := m.run("varlinkctl introspect " + agentsSocket + " org.deviceconfig.Agent1"); !strings.Contains(got, "method UseFor(") || !strings.Contains(got, "error NotAllowed") {
		m.t.Errorf("varlinkctl introspect: want the method and the error, got:\n%s", got)
	}
	if r := m.try("setpriv --reuid=65534 --regid=65534 --clear-groups varlinkctl info " + agentsSocket); r.Code == 0 || !strings.Contains(r.Stderr, "Permission denied") {
		m.t.Errorf("connection of a user: want a refusal, got %d %s%s", r.Code, r.Stdout, r.Stderr)
	}
	if r := m.ask("Account", nil); r.Code != 0 || !strings.Contains(r.Stdout, `"in_force":"cpx-fast"`) {
		m.t.Errorf("Account: want the effective profile, got %d %.300s%s", r.Code, r.Stdout, r.Stderr)
	}
	if r := m.ask("PlanFor", map[string]string{"text": agentsText, "profile": "many"}); !hasAll(r.Stdout, `"steps":[]`, `"restarts":[]`, `"gpus":[]`) {
		m.t.Errorf("PlanFor of the applied profile: want no step, got %d %s%s", r.Code, r.Stdout, r.Stderr)
	}
	if r := m.ask("PlanFor", map[string]string{"text": agentsText, "profile": "whole"}); !strings.Contains(r.Stdout, "gpuagent.service") || !strings.Contains(r.Stdout, `"reload":false`) || strings.Contains(r.Stdout, `"steps":[]`) || strings.Contains(r.Stdout, `"gpus":[]`) {
		m.t.Errorf("PlanFor of another profile: want steps and clients, got %d %s%s", r.Code, r.Stdout, r.Stderr)
	}
}

func (m machine) agentsSelect() {
	m.t.Helper()
	m.run("systemd-run --quiet --unit=follower --property=StandardOutput=file:/run/follower varlinkctl call --more --json=short " + agentsSocket + " org.deviceconfig.Agent1.Account '{}'")
	m.await("/run/follower", `"in_force":"cpx-fast"`)
	before := m.units(exporter, agentUnit, dashboard)
	if r := m.useFor(agentsText, "whole"); r.Code != 0 || !strings.Contains(r.Stdout, `"result":"applied"`) {
		m.t.Fatalf("UseFor: want applied, got %d %s%s", r.Code, r.Stdout, r.Stderr)
	}
	m.has(spx)
	m.bounced(before)
	m.await("/run/follower", `"applied":"whole"`)
	m.t.Logf("use of dcm-agent.service with a client that follows the account: %s", m.run("systemctl show --property=MemoryCurrent,MemoryPeak,CPUUsageNSec dcm-agent | xargs; grep ^Rss /proc/$(systemctl show -P MainPID dcm-agent)/smaps_rollup"))
	m.run("systemctl stop follower")
	if got := m.account().Profile.Source; got != agentsFile+":4" {
		m.t.Errorf("source of the profile: want %s:4, got %s", agentsFile, got)
	}
	m.exits(0, "dcm status", agentsFile+":4", settings)
	if who := m.lastRun().Asked.Who; who == nil || who.Unit != "dcm-agent.service" {
		m.t.Errorf("caller in the history: want dcm-agent.service, got %+v", who)
	}
	before = m.units(exporter, agentUnit, dashboard, "dcm-apply.service")
	if r := m.useFor(agentsText, "whole"); r.Code != 0 || !strings.Contains(r.Stdout, `"result":"unchanged"`) {
		m.t.Errorf("UseFor of the applied profile: want unchanged, got %d %s%s", r.Code, r.Stdout, r.Stderr)
	}
	m.untouched(before)
}

func (m machine) agentsAreRefused() {
	m.t.Helper()
	before, file := m.units(exporter, agentUnit, dashboard, "dcm-apply.service"), m.run("cat "+agentsFile)
	for _, tt := range []struct{ text, profile, want string }{
		{agentsText + "[gpu]\nlibrary = \"/tmp/x.so\"\n", "many", "NotAllowed"},
		{agentsText + "[clients]\nunits = [\"sshd\"]\n", "many", "NotAllowed"},
		{agentsText + "[profiles.", "many", "InvalidConfiguration"},
		{"{", "many", "InvalidConfiguration"},
		{agentsText, "mayn", "NoSuchProfile"},
		{agentsText, "three", "NoSuchProfile"},
	} {
		if r := m.useFor(tt.text, tt.profile); r.Code == 0 || !strings.Contains(r.Stdout+r.Stderr, "org.deviceconfig.Agent1."+tt.want) {
			m.t.Errorf("%s from %q: exit status %d: %s%s", tt.profile, tt.text, r.Code, r.Stdout, r.Stderr)
		}
	}
	if r := m.ask("UseFor", map[string]string{"text": agentsText}); r.Code == 0 || !strings.Contains(r.Stdout+r.Stderr, "InvalidParameter") {
		m.t.Errorf("UseFor without a profile: want InvalidParameter, got %d %s%s", r.Code, r.Stdout, r.Stderr)
	}
	m.exits(1, "dcm use cpx-fast", "whole", agentsFile)
	m.put("/etc/dcm/dcm.toml.d/70-other.toml", "profile = \"spx-fast\"\n")
	m.applied("spx-fast")
	if r := m.useFor(agentsText, "many"); r.Code == 0 || !strings.Contains(r.Stdout+r.Stderr, "NotAllowed") {
		m.t.Errorf("UseFor with a drop-in that selects: want NotAllowed, got %d %s%s", r.Code, r.Stdout, r.Stderr)
	}
	m.run("rm /etc/dcm/dcm.toml.d/70-other.toml")
	m.applied("whole")
	m.untouched(before)
	if got := m.run("cat " + agentsFile); got != file {
		m.t.Errorf("agent.toml after a refusal: want it unchanged, got:\n%s", got)
	}
}

func (m machine) agentsMeetTrouble() {
	m.t.Helper()
	file := m.run("cat " + agentsFile)
	m.run("systemd-run --quiet --unit=training gpu-client")
	if r := m.useFor(agentsText, "many"); r.Code == 0 || !strings.Contains(r.Stderr, "org.deviceconfig.Agent1.Failed") || !strings.Contains(r.Stdout, `"undone":true,"busy":true`) {
		m.t.Errorf("UseFor with a holder: want Failed with busy, got %d %s%s", r.Code, r.Stdout, r.Stderr)
	}
	m.run("systemctl stop training")

	m.run("dcm-sim fault --gpu $(ls /sys/bus/pci/devices | tail -1) --op compute --errno EINVAL --times 3")
	if r := m.useFor(agentsText, "many"); r.Code == 0 || !strings.Contains(r.Stderr, "org.deviceconfig.Agent1.Failed") || !strings.Contains(r.Stdout, `"undone":true,"busy":false`) {
		m.t.Errorf("UseFor with a failing GPU: want Failed, got %d %s%s", r.Code, r.Stdout, r.Stderr)
	}
	m.run("dcm-sim reset")
	m.has(spx)
	m.applied("whole")
	if got := m.run("cat " + agentsFile); got != file {
		m.t.Errorf("agent.toml after a failure: want it unchanged, got:\n%s", got)
	}

	m.run("systemctl stop dcm")
	if r := m.useFor(agentsText, "many"); r.Code == 0 || !strings.Contains(r.Stderr, "org.deviceconfig.Agent1.Failed") || !strings.Contains(r.Stdout, `"undone":true`) {
		m.t.Errorf("UseFor without the daemon: want Failed, got %d %s%s", r.Code, r.Stdout, r.Stderr)
	}
	m.run("systemctl start dcm")
	m.agentsAtOnce()
	m.agentsDaemonKilled()
}

// Two concurrent calls run one after the other, and each returns its own result.
func (m machine) agentsAtOnce() {
	m.t.Helper()
	for _, profile := range []string{"many", "whole"} {
		text, err := json.Marshal(map[string]string{"text": agentsText, "profile": profile})
		if err != nil {
			m.t.Fatal(err)
		}
		m.put("/run/"+profile+".json", string(text))
	}
	got := m.run("for profile in many whole; do varlinkctl call --timeout=10min --json=short " + agentsSocket + ` org.deviceconfig.Agent1.UseFor "$(cat /run/$profile.json)" & done; wait`)
	// whole was applied before, so its result depends on which call was first.
	if strings.Count(got, `"result":"`) != 2 || !strings.Contains(got, `"result":"applied"`) || !hasAll(got, "many", "whole") {
		m.t.Errorf("results of two concurrent calls: want one for each profile, got:\n%s", got)
	}
}

// The daemon is killed in the middle of a run that an agent waits for.
func (m machine) agentsDaemonKilled() {
	m.t.Helper()
	m.useFor(agentsText, "many")
	m.has(partition.Mode{Compute: partition.CPX, Memory: "NPS1"})
	m.run("dcm-sim fault --gpu 0000:e5:00.0 --op compute --hang forever")
	text, err := json.Marshal(map[string]string{"text": agentsText, "profile": "whole"})
	if err != nil {
		m.t.Fatal(err)
	}
	m.run("systemd-run --quiet --unit=asker --property=StandardOutput=file:/run/asker varlinkctl call --json=short --timeout=10min "+agentsSocket+` org.deviceconfig.Agent1.UseFor "$1"`, string(text))
	m.run(switched + "; systemctl kill --signal=KILL dcm; dcm-sim fault --clear")
	m.await("/run/asker", `"result":"applied"`)
	m.has(spx)
	if r := m.ask("Account", nil); r.Code != 0 || !strings.Contains(r.Stdout, `"applied":"whole"`) {
		m.t.Errorf("Account: want the effective profile, got %d %.300s%s", r.Code, r.Stdout, r.Stderr)
	}
	m.run("systemctl is-active amd-metrics-exporter gpuagent dashboard")
}
