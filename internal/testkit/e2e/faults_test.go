package e2e_test

import (
	"strings"
	"testing"

	"dcm/internal/engine/runstate"
)

// fault is a fault around a run, with the expected result. After it each client has been
// restarted once. After the repair of the node the profile is applied.
type fault struct {
	name    string
	profile string          // the selected profile; before, the node has cpx-fast
	before  string          // script that causes the fault, before the profile is selected
	amid    string          // script during the run; "" for none
	by      string          // condition that the daemon has run, if its state file cannot show it
	spared  bool            // no client is restarted, since the daemon knows that the run would fail
	state   []string        // parts of the daemon's state at the end
	result  runstate.Result // result in the report; "" if the report is still that of the run before
	unit    string          // result and exit status of dcm-apply.service
	gpus    string          // the modes
	verify  int             // exit status of dcm verify
	command string          // command that prints what is wanted; "": verify the applied profile
	want    string
	heal    string // script that makes the profile possible again
}

// These clients were active before and must be active again after each fault.
var bouncing = []string{exporter, agentUnit, dashboard}

const (
	atSPX  = "8 × SPX/NPS1"
	atCPX  = "8 × CPX/NPS1"
	atNPS4 = "8 × CPX/NPS4"
	// A run that exceeds its time limit and then ends by itself.
	lowered = `mkdir -p /run/systemd/system/dcm-apply.service.d
printf '[Service]\nTimeoutStartSec=8s\n' >/run/systemd/system/dcm-apply.service.d/limit.conf
systemctl daemon-reload
`
	// A run that exceeds its time limit and is then killed.
	killed = "mkdir -p /run/systemd/system/dcm-apply.service.d; printf '[Service]\\nTimeoutStopSec=2s\\n' >/run/systemd/system/dcm-apply.service.d/stop.conf\n" + lowered
	raised = "rm -r /run/systemd/system/dcm-apply.service.d; systemctl daemon-reload; dcm-sim fault --clear; "
	full   = `journalctl --boot --unit=dcm --output=cat --quiet --lines=1 --grep="no space left"`
	log    = "journalctl --boot --unit=dcm --unit=dcm-apply --output=cat --lines=40"
	fields = "journalctl --boot --unit=dcm --unit=dcm-apply --output=json --lines=40"
)

var inSync = []string{`"phase": "in-sync"`, `"profile": "spx-fast"`}

func faultMatrix() []fault {
	return []fault{
		{name: "SIGTERM of oneshot during a switch", profile: "spx-fast", amid: "systemctl kill --signal=TERM dcm-apply",
			state: inSync, result: runstate.Applied, unit: "success 0", gpus: atSPX},
		{name: "SIGTERM of oneshot between steps", profile: "cpx-nps4", before: "rm -f /var/lib/dcm/history.jsonl", amid: "systemctl kill --signal=TERM dcm-apply",
			state: []string{`"phase": "in-sync"`, `"profile": "cpx-nps4"`}, result: runstate.Applied, unit: "success 0", gpus: atNPS4, command: "dcm report --list --json", want: `"interrupted"`},
		{name: "SIGSTOP of oneshot beyond its timeout", profile: "spx-fast", before: lowered, amid: "dcm-sim fault --clear; e2e-agent await /run/dcm/report.json '\"result\": \"applied\"' '\"profile\": \"spx-fast\"'",
			// systemd sends SIGCONT after SIGTERM, and the run completes.
			state: inSync, result: runstate.Applied, unit: "success 0", gpus: atSPX, command: fields, want: `"DCM_TOOK"`, heal: raised},
		{name: "switch hangs beyond the timeout", profile: "spx-fast", before: killed + "dcm-sim fault --gpu 0000:c6:00.0 --op compute --hang forever --times always",
			state: []string{`"phase": "waiting"`}, result: runstate.Running, unit: "timeout 9", gpus: "1 × CPX/NPS1, 7 × SPX/NPS1", verify: 2,
			// dcm status has it only until the next attempt, seconds later.
			command: "journalctl --boot --unit=dcm --output=cat --lines=100", want: "in progress: switch 0000:c6:00.0 from CPX to SPX", heal: raised},
		{name: "daemon-reload during a run", profile: "spx-fast", amid: "systemctl daemon-reload",
			state: inSync, result: runstate.Applied, unit: "success 0", gpus: atSPX},
		{name: "bus restarted during a run", profile: "spx-fast", amid: "systemctl restart dbus",
			state: inSync, result: runstate.Applied, unit: "success 0", gpus: atSPX},
		{name: "bus killed during a run", profile: "spx-fast", amid: "systemctl kill --signal=KILL dbus",
			state: inSync, result: runstate.Applied, unit: "success 0", gpus: atSPX},
		{name: "oneshot killed, profile required", profile: "spx-fast", before: "printf '[clients]\\nrequire = true\\n' >/etc/dcm/dcm.toml.d/60-require.toml; systemctl restart dcm", amid: "systemctl kill --signal=KILL dcm-apply",
			// The run was killed after its last switch, so the next one changes nothing.
			state: inSync, unit: "success 0", gpus: atSPX, command: fields, want: `"DCM_UNIT":"` + agentUnit + `"`},
		{name: "daemon stopped during a run", profile: "spx-fast", amid: "systemctl stop dcm",
			result: runstate.Applied, unit: "success 0", gpus: atSPX, command: "dcm status --json", want: `"daemon-down"`, heal: "systemctl start dcm"},
		{name: "second apply during a run", profile: "spx-fast", amid: "rm -f /run/second; (dcm apply; echo exit status $?) >/run/second 2>&1 &",
			state: inSync, result: runstate.Applied, unit: "success 0", gpus: atSPX, command: "e2e-agent await /run/second 'exit status 0' && cat /run/second", want: "spx-fast"},
		{name: "edit during a run", profile: "spx-fast", amid: "sed -i 's/^profile = .*/profile = \"cpx-nps4\"/' " + settings,
			state: []string{`"phase": "in-sync"`, `"profile": "cpx-nps4"`}, result: runstate.Applied, unit: "success 0", gpus: atNPS4},
		{name: "broken edit during a run", profile: "spx-fast", amid: "echo 'colour = \"red\"' >>" + settings,
			state: append([]string{"colour"}, inSync...), result: runstate.Applied, unit: "success 0", gpus: atSPX, verify: 78, command: waitFor("systemctl show --property=StatusText dcm | grep colour"), want: "colour"},
		{name: "runtime directory full", profile: "spx-fast", before: "mount -o remount,size=1m /run; dd if=/dev/zero of=/run/filler bs=4k 2>/dev/null; dcm-sim fault --gpu all --op compute --hang 100ms",
			// Whether the write fails depends on the free pages. If it fails, the run begins no step.
			by: "e2e-agent await-command '" + full + " | grep .'; truncate --size=-256K /run/filler; systemctl restart dcm", unit: "success 0", gpus: atSPX,
			command: "dcm use spx-fast && " + full, want: "no space left", heal: "rm /run/filler; mount -o remount,size=100m /run; rm -f /etc/dcm/dcm.toml.d/*selected*; systemctl restart dcm"},
		{name: "runtime directory read-only", profile: "spx-fast", before: "mount --bind /run/dcm /run/dcm; mount -o remount,ro,bind /run/dcm; systemctl stop dcm", // the daemon's own /run/dcm stays writable
			by: "systemctl restart dcm", spared: true, unit: "success 0", gpus: atCPX, verify: 2, command: "dcm use spx-fast; " + log, want: "read-only file system", heal: "umount --lazy /run/dcm; systemctl restart dcm"},
		{name: "state directory read-only", profile: "spx-fast", before: "mount --bind /var /var; mount -o remount,ro,bind /var",
			state: inSync, result: runstate.Applied, unit: "success 0", gpus: atSPX, heal: "umount --lazy /var"},
		{name: "driver load fails", profile: "cpx-nps4", before: "dcm-sim fault --op load --errno EIO --times 3",
			state: []string{`"phase": "failed"`}, result: runstate.RolledBack, unit: "exit-code 69", gpus: atCPX, verify: 2, command: "dcm status", want: "driver is not loaded", heal: "systemctl restart dcm"},
		{name: "GPU disappears from the bus", profile: "spx-fast", before: "dcm-sim fault --gpu 0000:c6:00.0 --op compute --vanish",
			state: []string{`"phase": "failed"`}, result: runstate.Failed, unit: "exit-code 69", gpus: "7 × CPX/NPS1", verify: exitAny, command: "dcm status", want: "0000:c6:00.0", heal: "dcm-sim reset; systemctl restart dcm"},
	}
}

// exitAny is for a fault after which the state of the GPUs depends on timing.
const exitAny = -1

// faults runs all faults sequentially in one container.
func faults(t *testing.T, p product) {
	t.Parallel()
	for _, recipe := range suites() {
		t.Run(recipe.Suite, func(t *testing.T) {
			t.Parallel()
			m := install(t, recipe, p)
			for _, f := range faultMatrix() {
				t.Run(f.name, func(t *testing.T) { f.try(m.in(t)) })
			}
		})
	}
}

func (f fault) try(m machine) {
	m.ready()
	before := m.units(bouncing...)
	m.run(f.before)
	switch {
	case f.amid == "":
		m.put(settings, selecting(f.profile))
	case f.profile == "spx-fast":
		m.duringSPX(func() { m.run(f.amid) })
	default:
		m.duringMemory(f.profile, func() { m.run(f.amid) })
	}
	f.end(m)
	if f.spared {
		m.untouched(before)
	} else {
		m.bounced(before)
	}
	f.judge(m)
	m.run(f.heal)
	m.applied(f.healed())
	m.run("dcm-sim reset")
	m.converges("cpx-fast")
}

// duringMemory selects a profile and acts while its memory request hangs. It waits for the
// first step in the report, which it recognizes by the indentation.
func (m machine) duringMemory(profile string, act func()) {
	m.t.Helper()
	m.run("dcm-sim fault --op memory --hang forever")
	m.put(settings, selecting(profile))
	m.await("/run/dcm/report.json", `"result": "running"`, `"profile": "`+profile+`"`, "\n      \"started\": ")
	act()
	m.run("dcm-sim fault --clear")
}

// end waits for the state of the daemon, or for its restart if no file shows the state, and
// until the clients are active again.
func (f fault) end(m machine) {
	m.t.Helper()
	switch {
	case f.by != "":
		m.try(f.by)
	case f.state == nil:
		m.await("/run/dcm/report.json", `"result": "`+string(f.result)+`"`, `"profile": "`+f.profile+`"`)
	default:
		m.await("/run/dcm/state.json", f.state...)
	}
	for _, unit := range bouncing {
		if p := m.show(unit, "Job", "ActiveState"); p["ActiveState"] != "active" && p["Job"] == "" {
			m.t.Errorf("%s: want it active or with a start job, got %s", unit, p["ActiveState"])
		}
	}
	m.try("systemctl start " + strings.Join(bouncing, " ")) // waits for the jobs in progress
}

// healed is the profile that is selected after the repair.
func (f fault) healed() string {
	if strings.Contains(f.amid, "cpx-nps4") {
		return "cpx-nps4"
	}
	return f.profile
}

func (f fault) judge(m machine) {
	m.t.Helper()
	if got := m.lastRun().Result; f.result != "" && got != f.result {
		m.t.Errorf("the report says %s, want %s", got, f.result)
	}
	p := m.show("dcm-apply.service", "Result", "ExecMainStatus")
	if got := p["Result"] + " " + p["ExecMainStatus"]; got != f.unit {
		m.t.Errorf("dcm-apply.service ended %q, want %q", got, f.unit)
	}
	if got := m.counted(); f.gpus != "" && got != f.gpus {
		m.t.Errorf("the GPUs are at %s, want %s", got, f.gpus)
	}
	if got := m.try("dcm verify").Code; f.verify != exitAny && got != f.verify {
		m.t.Errorf("dcm verify exits with %d, want %d", got, f.verify)
	}
	if f.command == "" {
		if got := m.account().Profile.Applied; got != f.healed() {
			m.t.Errorf("applied profile: want %s, got %q", f.healed(), got)
		}
		return
	}
	r := m.try(f.command)
	if text := r.Stdout + r.Stderr; !strings.Contains(text, f.want) {
		m.t.Errorf("%s: want %q, got:\n%s", f.command, f.want, text)
	}
}

// counted returns a text with the number of GPUs in each mode.
func (m machine) counted() string {
	m.t.Helper()
	count := make(map[string]int)
	for _, mode := range m.modes() {
		count[mode.String()]++
	}
	return tally(count)
}
