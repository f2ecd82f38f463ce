package e2e_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/testkit/e2e"
)

// shortSoak is how long the random trials go on as a part of all tests; make soak
// lets them go on for DCM_SOAK.
const shortSoak = 30 * time.Second

// random does at random what operators, crashes and jobs do to a node, and checks
// after each that nothing was lost. DCM_SEED repeats a run's choices.
func random(t *testing.T, p product) {
	t.Parallel()
	length, err := time.ParseDuration(os.Getenv("DCM_SOAK"))
	if err != nil {
		length = shortSoak
	}
	seed, err := strconv.ParseUint(os.Getenv("DCM_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("seed: DCM_SEED=%d for %s", seed, length)
	s := newSoak(t, p, seed)
	for end := time.Now().Add(length); time.Now().Before(end) && !t.Failed(); {
		s.trial()
	}
	t.Logf("done and nothing lost: %s", tally(s.count))
}

// soak is a machine under random trials.
type soak struct {
	machine
	rand    *rand.Rand
	profile string // selected
	count   map[string]int
}

// modesOf are the profiles that the trials go between.
var modesOf = map[string]partition.Mode{
	"spx-fast": {Compute: "SPX", Memory: "NPS1"},
	"cpx-fast": {Compute: "CPX", Memory: "NPS1"},
	"cpx-nps4": {Compute: "CPX", Memory: "NPS4"},
}

func newSoak(t *testing.T, p product, seed uint64) *soak {
	m := install(t, e2e.Trixie(), p)
	m.ready()
	m.fragileReady("/etc")
	m.run("systemctl add-wants multi-user.target " + fragileUnits)
	m.put(settings, lists("cpx-fast"))
	m.killableGenerator()
	s := &soak{m, rand.New(rand.NewPCG(seed, 0)), "cpx-fast", make(map[string]int)}
	s.slow()
	return s
}

// slow makes the steps long enough for a kill to fall into the middle of each.
func (s *soak) slow() {
	s.run("dcm-sim fault --gpu all --op compute --hang 20ms --times always; dcm-sim fault --op unload --hang 150ms --times always; dcm-sim fault --op load --hang 150ms --times always")
}

// trial does one thing and checks that all is well once it is quiet.
func (s *soak) trial() {
	s.t.Helper()
	trials := []struct {
		name   string
		weight int
		do     func()
	}{
		{"edit", 4, s.edit},
		{"kill of the oneshot", 8, func() { s.kill("dcm-apply") }},
		{"kill of the daemon", 8, func() { s.kill("dcm") }},
		{"series of kills", 4, s.kills},
		{"two kills in a row", 4, s.killTwice},
		{"kill of modprobe", 4, s.killModprobe},
		{"kill of somebody's own run", 3, s.killForeign},
		{"kill of the message bus", 1, func() { s.during("systemctl kill --signal=KILL dbus") }},
		{"kill of the journal", 1, func() { s.during("systemctl kill --signal=KILL systemd-journald") }},
		{"edit broken and mended", 3, s.breaks},
		{"second restart in the middle", 2, func() { s.during("systemctl restart dcm") }},
		{"daemon-reload in the middle", 2, func() { s.during("systemctl daemon-reload") }},
		{"generator killed during daemon-reload", 3, s.generatorKilled},
		{"daemon-reexec in the middle", 1, func() { s.during("systemctl daemon-reexec") }},
		{"stop of the daemon in the middle", 2, func() { s.during("systemctl stop dcm") }},
		{"SIGSTOP of the oneshot", 2, func() { s.freeze("dcm-apply") }},
		{"SIGSTOP of the daemon", 1, func() { s.freeze("dcm") }},
		{"two edits at once", 3, func() { s.edit(); s.edit() }},
		{"holder comes and goes", 2, s.holder},
		{"no inotify instance", 1, s.withoutInotify},
		{"reboot", 1, s.restarted},
		{"power cut", 1, s.cut},
	}
	total := 0
	for _, t := range trials {
		total += t.weight
	}
	pick := s.rand.IntN(total)
	for _, t := range trials {
		if pick -= t.weight; pick < 0 {
			s.count[t.name]++
			t.do()
			s.well(t.name)
			return
		}
	}
}

// edit selects another profile in the file.
func (s *soak) edit() {
	others := slices.DeleteFunc(slices.Sorted(maps.Keys(modesOf)), func(name string) bool { return name == s.profile })
	s.profile = others[s.rand.IntN(len(others))]
	s.put(settings, lists(s.profile))
}

// moment is some time within a run, as an argument of sleep(1).
func (s *soak) moment() string { return fmt.Sprintf("0.%03d", s.rand.IntN(600)) }

// during does something at a random moment of a run.
func (s *soak) during(command string) {
	s.edit()
	s.try("sleep " + s.moment() + "; " + command)
}

// kill ends a unit's main process at a random moment of a run.
func (s *soak) kill(unit string) {
	s.edit()
	s.killNow(unit)
}

func (s *soak) killNow(unit string) {
	r := s.try("sleep " + s.moment() + "; pid=$(systemctl show --property=MainPID --value " + unit + `); [ "$pid" = 0 ] || kill -9 $pid && echo $pid`)
	if pid := strings.TrimSpace(r.Stdout); pid != "" && pid != "0" {
		s.count["killed processes"]++
	}
}

// kills ends the oneshot or the daemon again and again while it is made to run.
func (s *soak) kills() {
	s.edit()
	for range 10 {
		unit := []string{"dcm", "dcm-apply"}[s.rand.IntN(2)]
		s.killNow(unit)
		s.run("systemctl restart --no-block dcm")
	}
}

// killTwice ends what is tried again as well.
func (s *soak) killTwice() {
	s.kill("dcm-apply")
	s.killNow([]string{"dcm", "dcm-apply"}[s.rand.IntN(2)])
}

// reloads selects another memory mode, so that the driver is reloaded.
func (s *soak) reloads() {
	s.profile = map[bool]string{true: "cpx-fast", false: "cpx-nps4"}[s.profile == "cpx-nps4"]
	s.put(settings, lists(s.profile))
}

// killModprobe ends the program that loads or unloads the driver, under the oneshot's
// feet or together with it.
func (s *soak) killModprobe() {
	s.reloads()
	for range 1 + s.rand.IntN(2) {
		// The run may be over before it is seen to be running: its report names the profile from the start.
		s.try("e2e-agent await /run/dcm/report.json '\"profile\": \"" + s.profile + "\"'; sleep " + s.moment() + "; " + endsAll("modprobe"))
	}
	if s.rand.IntN(2) == 0 {
		s.killNow("dcm-apply")
	}
}

// endsAll kills the processes of that name, if there are any, without a program that not
// each root has.
func endsAll(name string) string {
	return `for p in /proc/[0-9]*; do if [ "$(cat $p/comm 2>/dev/null)" = ` + name + ` ]; then kill -KILL "${p#/proc/}" && echo killed ` + name + `; fi; done`
}

// killForeign ends a run that the daemon has not asked for, and then says something
// else, or nothing at all, for a while.
func (s *soak) killForeign() {
	s.reloads()
	s.try("systemctl restart --no-block dcm-apply; sleep " + s.moment() + "; systemctl kill --signal=KILL dcm-apply")
	if s.rand.IntN(2) == 0 {
		s.put(settings, strings.Replace(lists(s.profile), "profile = ", "# profile = ", 1))
		s.run("systemctl restart dcm; test -e /sys/module/amdgpu")
		s.put(settings, lists(s.profile))
	}
}

// breaks makes an edit that cannot be used, does something over it, and mends it.
func (s *soak) breaks() {
	s.edit()
	s.try("sleep " + s.moment())
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

// generatorKilled takes the clients' drop-ins away in a run, and has a client started
// without. dcm has them loaded again by itself.
func (s *soak) generatorKilled() {
	s.during(killing("systemctl daemon-reload; systemctl try-restart gpuagent"))
	s.run("timeout 120 sh -c 'until systemctl show -P PartOf gpuagent | grep -q dcm-apply; do systemctl show dcm >/dev/null; done'")
}

// freeze stops a unit's processes for a while, as a debugger or a freezer does.
func (s *soak) freeze(unit string) {
	s.edit()
	s.try("sleep " + s.moment() + "; systemctl kill --signal=STOP " + unit + "; sleep " + s.moment() + "; systemctl kill --signal=CONT " + unit)
}

// holder lets a user's job hold the GPUs over an edit.
func (s *soak) holder() {
	s.run("systemd-run --quiet --unit=training sh -c 'exec 3</dev/kfd; exec sleep infinity' || :")
	s.edit()
	s.try("sleep " + s.moment())
	s.run("systemctl stop training")
}

// withoutInotify lets the daemon notice an edit by polling.
func (s *soak) withoutInotify() {
	s.refuseInotify()
	s.edit()
	s.applied(s.profile)
	s.allowInotify()
}

func (s *soak) restarted() {
	s.edit()
	s.reboot()
	s.slow()
}

// cut ends the boot in the middle of a run, with nothing shut down.
func (s *soak) cut() {
	s.edit()
	s.try("sleep " + s.moment() + "; systemd-run --quiet --no-block systemctl reboot --force --force")
	s.rebootedByItself()
	s.slow()
}

// well checks that the profile is on the GPUs, that every client is up, that no
// job is left, and no piece of a file.
func (s *soak) well(after string) {
	s.t.Helper()
	s.run("systemctl restart dcm")
	s.run("systemctl is-active amd-metrics-exporter gpuagent dashboard " + fragileUnits)
	if failed := s.run("systemctl list-units --failed --no-legend --plain"); failed != "" {
		s.t.Errorf("after %s: failed are\n%s", after, failed)
	}
	want := modesOf[s.profile]
	for gpu, mode := range s.modes() {
		if mode != want {
			s.t.Errorf("after %s: %s is %s, want %s", after, gpu, mode, want)
		}
	}
	// A run that was killed after its last switch has left nothing to do, and no
	// word either.
	if run := s.lastRun(); !run.Result.OK() && run.Result != runstate.Running {
		s.t.Errorf("after %s: the last run is %s: %v", after, run.Result, run.Error)
	}
	if jobs := s.run("systemctl list-jobs --no-legend | grep -v ' dcm_owes_' || :"); jobs != "" {
		s.t.Errorf("after %s: jobs are left: %s", after, jobs)
	}
	// One that is just being written is no older than this.
	if files := s.run("find /run/dcm /etc/dcm -name '.*' -type f ! -newermt '-5 seconds'"); files != "" {
		s.t.Errorf("after %s: pieces of files are left:\n%s", after, files)
	}
}

// tally tells how many there are of each.
func tally(count map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(count)) {
		parts = append(parts, fmt.Sprintf("%d × %s", count[name], name))
	}
	return strings.Join(parts, ", ")
}
