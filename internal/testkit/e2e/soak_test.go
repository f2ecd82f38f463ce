package e2e_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/testkit/e2e"
	"dcm/internal/testkit/soak"
)

// defaultSoakTimeout is the duration of the random trials without DCM_SOAK.
const defaultSoakTimeout = 30 * time.Second

// random runs random actions of operators, crashes and jobs on a node. After each it checks that no client
// and no GPU is lost. DCM_SEED repeats the choices of a run.
func random(t *testing.T, p product) {
	t.Parallel()
	length, err := time.ParseDuration(os.Getenv("DCM_SOAK"))
	if err != nil {
		length = defaultSoakTimeout
	}
	s := newNodeSoak(t, p, soak.Rand(t))
	for end := time.Now().Add(length); time.Now().Before(end) && !t.Failed(); {
		s.trial()
	}
	t.Logf("no client and no GPU was lost: %s", tally(s.count))
}

// nodeSoak is the machine of the random trials.
type nodeSoak struct {
	machine
	rand    *rand.Rand
	profile string // the selected profile
	count   map[string]int
}

// modesOf are the profiles that the trials select.
var modesOf = map[string]partition.Mode{
	"spx-fast": {Compute: "SPX", Memory: "NPS1"},
	"cpx-fast": {Compute: "CPX", Memory: "NPS1"},
	"cpx-nps4": {Compute: "CPX", Memory: "NPS4"},
}

func newNodeSoak(t *testing.T, p product, r *rand.Rand) *nodeSoak {
	m := install(t, e2e.Trixie(), p)
	m.ready()
	m.fragileReady("/etc")
	m.run("systemctl add-wants multi-user.target " + fragileUnits)
	m.put(settings, lists("cpx-fast"))
	m.killableGenerator()
	s := &nodeSoak{m, r, "cpx-fast", make(map[string]int)}
	s.slow()
	return s
}

// slow makes the steps long enough that a kill can hit each of them.
func (s *nodeSoak) slow() {
	s.run("dcm-sim fault --gpu all --op compute --hang 20ms --times always; dcm-sim fault --op unload --hang 150ms --times always; dcm-sim fault --op load --hang 150ms --times always")
}

// trial runs one action, and checks the node after it.
func (s *nodeSoak) trial() {
	s.t.Helper()
	step := soak.Pick(s.rand, []soak.Step{
		{Name: "edit", Weight: 4, Do: s.edit},
		{Name: "kill of the oneshot", Weight: 8, Do: func() { s.kill("dcm-apply") }},
		{Name: "kill of the daemon", Weight: 8, Do: func() { s.kill("dcm") }},
		{Name: "series of kills", Weight: 4, Do: s.kills},
		{Name: "two kills in a row", Weight: 4, Do: s.killTwice},
		{Name: "kill of modprobe", Weight: 4, Do: s.killModprobe},
		{Name: "kill of a run by systemctl", Weight: 3, Do: s.killForeign},
		{Name: "kill of the message bus", Weight: 1, Do: func() { s.during("systemctl kill --signal=KILL dbus") }},
		{Name: "kill of the journal", Weight: 1, Do: func() { s.during("systemctl kill --signal=KILL systemd-journald") }},
		{Name: "broken edit and its repair", Weight: 3, Do: s.breaks},
		{Name: "second restart during a run", Weight: 2, Do: func() { s.during("systemctl restart dcm") }},
		{Name: "daemon-reload during a run", Weight: 2, Do: func() { s.during("systemctl daemon-reload") }},
		{Name: "generator killed during daemon-reload", Weight: 3, Do: s.generatorKilled},
		{Name: "daemon-reexec during a run", Weight: 1, Do: func() { s.during("systemctl daemon-reexec") }},
		{Name: "stop of the daemon during a run", Weight: 2, Do: func() { s.during("systemctl stop dcm") }},
		{Name: "SIGSTOP of the oneshot", Weight: 2, Do: func() { s.freeze("dcm-apply") }},
		{Name: "SIGSTOP of the daemon", Weight: 1, Do: func() { s.freeze("dcm") }},
		{Name: "two edits", Weight: 3, Do: func() { s.edit(); s.edit() }},
		{Name: "holder during a run", Weight: 2, Do: s.holder},
		{Name: "edit without inotify", Weight: 1, Do: s.withoutInotify},
		{Name: "reboot", Weight: 1, Do: s.restarted},
		{Name: "power cut", Weight: 1, Do: s.cut},
	})
	s.count[step.Name]++
	step.Do()
	s.well(step.Name)
}

// edit selects another profile in the file.
func (s *nodeSoak) edit() {
	others := slices.DeleteFunc(slices.Sorted(maps.Keys(modesOf)), func(name string) bool { return name == s.profile })
	s.profile = others[s.rand.IntN(len(others))]
	s.put(settings, lists(s.profile))
}

// delay returns a random duration within a run, as an argument of sleep(1).
func (s *nodeSoak) delay() string { return fmt.Sprintf("0.%03d", s.rand.IntN(600)) }

// during runs a script at a random time during a run.
func (s *nodeSoak) during(command string) {
	s.edit()
	s.try("sleep " + s.delay() + "; " + command)
}

// kill kills a unit's main process at a random time during a run.
func (s *nodeSoak) kill(unit string) {
	s.edit()
	s.killNow(unit)
}

func (s *nodeSoak) killNow(unit string) {
	r := s.try("sleep " + s.delay() + "; pid=$(systemctl show --property=MainPID --value " + unit + `); [ "$pid" = 0 ] || kill -9 $pid && echo $pid`)
	if pid := strings.TrimSpace(r.Stdout); pid != "" && pid != "0" {
		s.count["killed processes"]++
	}
}

// kills kills the oneshot or the daemon repeatedly during runs.
func (s *nodeSoak) kills() {
	s.edit()
	for range 10 {
		unit := []string{"dcm", "dcm-apply"}[s.rand.IntN(2)]
		s.killNow(unit)
		s.run("systemctl restart --no-block dcm")
	}
}

// killTwice also kills the repetition.
func (s *nodeSoak) killTwice() {
	s.kill("dcm-apply")
	s.killNow([]string{"dcm", "dcm-apply"}[s.rand.IntN(2)])
}

// reloads selects another memory mode, so that the driver is reloaded.
func (s *nodeSoak) reloads() {
	s.profile = map[bool]string{true: "cpx-fast", false: "cpx-nps4"}[s.profile == "cpx-nps4"]
	s.put(settings, lists(s.profile))
}

// killModprobe kills the program that loads or unloads the driver, alone or together with the oneshot.
func (s *nodeSoak) killModprobe() {
	s.reloads()
	for range 1 + s.rand.IntN(2) {
		// The run may have ended before the test sees it. Its report names the profile from the start.
		s.try("e2e-agent await /run/dcm/report.json '\"profile\": \"" + s.profile + "\"'; sleep " + s.delay() + "; " + endsAll("modprobe"))
	}
	if s.rand.IntN(2) == 0 {
		s.killNow("dcm-apply")
	}
}

// endsAll kills the processes of a name, if there are any. It does not use pkill, which not every root has.
func endsAll(name string) string {
	return `for p in /proc/[0-9]*; do if [ "$(cat $p/comm 2>/dev/null)" = ` + name + ` ]; then kill -KILL "${p#/proc/}" && echo killed ` + name + `; fi; done`
}

// killForeign kills a run that the daemon did not request. Afterwards it makes other edits, or none.
func (s *nodeSoak) killForeign() {
	s.reloads()
	s.try("systemctl restart --no-block dcm-apply; sleep " + s.delay() + "; systemctl kill --signal=KILL dcm-apply")
	if s.rand.IntN(2) == 0 {
		s.put(settings, strings.Replace(lists(s.profile), "profile = ", "# profile = ", 1))
		s.run("systemctl restart dcm; test -e /sys/module/amdgpu")
		s.put(settings, lists(s.profile))
	}
}

// breaks makes an invalid edit, does something meanwhile, and repairs the file.
func (s *nodeSoak) breaks() {
	s.edit()
	s.try("sleep " + s.delay())
	s.put(settings, lists(s.profile)+"colour = \"red\"\n")
	switch s.rand.IntN(3) {
	case 0:
		s.killNow("dcm-apply")
	case 1:
		s.try("systemctl restart dcm")
	case 2:
		s.try("systemctl daemon-reload")
	}
	s.put(settings, lists(s.profile))
}

// generatorKilled removes the clients' drop-ins during a run, and starts a client without them. dcm must
// load them again.
func (s *nodeSoak) generatorKilled() {
	s.during(killing("systemctl daemon-reload; systemctl try-restart gpuagent"))
	s.until("systemctl show -P PartOf gpuagent | grep -q dcm-apply")
}

// freeze stops a unit's processes for some time, as a debugger or the freezer does.
func (s *nodeSoak) freeze(unit string) {
	s.edit()
	s.try("sleep " + s.delay() + "; systemctl kill --signal=STOP " + unit + "; sleep " + s.delay() + "; systemctl kill --signal=CONT " + unit)
}

// holder lets a user's job hold the GPUs during an edit.
func (s *nodeSoak) holder() {
	s.run("systemd-run --quiet --unit=training sh -c 'exec 3</dev/kfd; exec sleep infinity' || :")
	s.edit()
	s.try("sleep " + s.delay())
	s.run("systemctl stop training")
}

// withoutInotify makes the daemon find an edit by polling.
func (s *nodeSoak) withoutInotify() {
	s.refuseInotify()
	s.edit()
	s.applied(s.profile)
	s.allowInotify()
}

func (s *nodeSoak) restarted() {
	s.edit()
	s.reboot()
	s.slow()
}

// cut ends the boot during a run without a shutdown.
func (s *nodeSoak) cut() {
	s.edit()
	s.try("sleep " + s.delay() + "; systemd-run --quiet --no-block systemctl reboot --force --force")
	s.rebootedByItself()
	s.slow()
}

// well checks that the profile is on the GPUs, every client is active, no job is queued, and no temporary
// file is left.
func (s *nodeSoak) well(after string) {
	s.t.Helper()
	s.run("systemctl restart dcm")
	s.run("systemctl is-active amd-metrics-exporter gpuagent dashboard " + fragileUnits)
	if failed := s.run("systemctl list-units --failed --no-legend --plain"); failed != "" {
		s.t.Errorf("failed units after %s: want none, got\n%s", after, failed)
	}
	want := modesOf[s.profile]
	for gpu, mode := range s.modes() {
		if mode != want {
			s.t.Errorf("after %s: %s is %s, want %s", after, gpu, mode, want)
		}
	}
	// If a run was killed after its last switch, nothing is left to change, and no report is written.
	if run := s.lastRun(); !run.Result.OK() && run.Result != runstate.Running {
		s.t.Errorf("last run after %s: want success, got %s: %v", after, run.Result, run.Error)
	}
	if jobs := s.run("systemctl list-jobs --no-legend | grep -v ' dcm_owes_' || :"); jobs != "" {
		s.t.Errorf("jobs after %s: want none, got %s", after, jobs)
	}
	// A temporary file that is being written is younger than this.
	if files := s.run("find /run/dcm /etc/dcm -name '.*' -type f ! -newermt '-5 seconds'"); files != "" {
		s.t.Errorf("temporary files after %s: want none, got:\n%s", after, files)
	}
}

// tally returns the counts by name in one line.
func tally(count map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(count)) {
		parts = append(parts, fmt.Sprintf("%d × %s", count[name], name))
	}
	return strings.Join(parts, ", ")
}
