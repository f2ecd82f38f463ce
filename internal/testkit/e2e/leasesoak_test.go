package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"dcm/internal/testkit/e2e"
	"dcm/internal/testkit/e2e/crowd"
	"dcm/internal/testkit/testdeadline"
)

// leases does at random what users do to leases, many at once, and now and then what
// operators and crashes do, and looks after each time whether a partition has two, or is
// lost to all. DCM_SOAK is how long, or how many steps: each time that somebody asks for
// a lease, gives it back, or is killed. DCM_SEED repeats a run's choices.
func leases(t *testing.T, p product) {
	t.Parallel()
	text := os.Getenv("DCM_SOAK")
	most, _ := strconv.Atoi(text)
	length, err := time.ParseDuration(text)
	if err != nil {
		length = shortSoak
	}
	seed, err := strconv.ParseUint(os.Getenv("DCM_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("seed: DCM_SEED=%d for %s", seed, text)
	s := newLessees(t, p, seed)
	began, told := time.Now(), time.Now()
	for !t.Failed() && (most > 0 && s.steps < most || most == 0 && time.Since(began) < length) {
		s.trial()
		if time.Since(told) > time.Minute {
			told = time.Now()
			t.Log(s.told(began))
		}
	}
	if !t.Failed() {
		t.Logf("%s; no partition twice and none lost: %s", s.told(began), tally(s.count))
	}
}

// lessees is a machine whose partitions come and go.
type lessees struct {
	machine
	crowd   *crowd.Client
	rand    *rand.Rand
	steps   int
	batches int
	doing   time.Duration // what was to be done at once
	looking time.Duration
	count   map[string]int
	holders int // who had a lease when it was last looked at
	waiting int
	profile string
	alpha   int // partitions reserved for alpha; none if 0
	alone   bool
	beta    int
	amiss   disquiet
}

// disquiet is what has to be put right before all can be well.
type disquiet int

const (
	quiet    disquiet = iota
	downed            // something was killed
	edited            // and what is in the configuration may not be in force
	repaired          // something was killed that the daemon runs again by itself
	fullAt   = 20     // so many batches
	oddsAt   = 12     // one of so many is of an operator's or a crash
	mostOne  = 5      // partitions that somebody asks for at most
	mostAll  = 40     // who do something at once
)

func newLessees(t *testing.T, p product, seed uint64) *lessees {
	m := installWith(t, e2e.Trixie(), p, driverless())
	m.put("/etc/systemd/system/alpha.service", holder)
	m.put("/etc/systemd/system/beta.service", holder)
	m.run("systemctl daemon-reload; systemctl add-wants multi-user.target alpha beta; useradd --create-home --groups dcm ada; useradd --create-home --groups dcm bob")
	m.killableGenerator()
	s := &lessees{machine: m, rand: rand.New(rand.NewPCG(seed, 0)), count: make(map[string]int), profile: "cpx-fast", alpha: 2, alone: true, beta: 1}
	s.configure()
	s.run("systemctl restart dcm; systemctl start alpha beta")
	s.come()
	s.batch("at first", crowd.Batch{Full: true})
	return s
}

// told is how far it has come.
func (s *lessees) told(began time.Time) string {
	return fmt.Sprintf("%d steps in %d batches, %.0f s, of which doing takes %.0f and looking %.0f", s.steps, s.batches, time.Since(began).Seconds(), s.doing.Seconds(), s.looking.Seconds())
}

// come has the crowd in, which is a service like any other.
func (s *lessees) come() {
	s.t.Helper()
	s.run("rm -f /run/crowd; systemd-run --quiet --collect --unit=crowd e2e-agent crowd /e2e/crowd.sock /run/crowd")
	s.await("/run/crowd", "ready")
	var err error
	if s.crowd, err = crowd.Dial(s.Shared("crowd.sock")); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { s.crowd.Close() })
}

func (s *lessees) configure() {
	s.t.Helper()
	text := fmt.Sprintf(reserving, s.profile, 0)
	text = text[:strings.Index(text, "[[reservation]]")]
	if s.alpha > 0 {
		text += fmt.Sprintf("[[reservation]]\nunit = \"alpha\"\npartitions = %d\nexclusive = %t\n", s.alpha, s.alone)
	}
	if s.beta > 0 {
		text += fmt.Sprintf("[[reservation]]\nunit = \"beta\"\npartitions = %d\nplace = \"spread\"\n", s.beta)
	}
	s.put(settings, text+"\n[leases]\nshares = 3\n")
}

// trial does something and looks at what has become of the partitions.
func (s *lessees) trial() {
	s.t.Helper()
	if s.rand.IntN(oddsAt) > 0 {
		s.batch("what users do", crowd.Batch{Steps: s.some(1 + s.rand.IntN(mostAll)), Full: s.batches%fullAt == 0})
		return
	}
	name := s.odd()
	s.settle()
	s.batch(name, crowd.Batch{Full: true})
}

// batch has the crowd do something, and judges it.
func (s *lessees) batch(name string, b crowd.Batch) crowd.Reply {
	s.t.Helper()
	b.Parts, b.Most = map[string]int{"cpx-fast": 64, "qpx-fast": 32}[s.profile], mostOne
	ctx, cancel := testdeadline.Context(s.t.Context(), 2*patience)
	defer cancel()
	r, err := s.crowd.Do(ctx, b)
	if err != nil {
		s.t.Fatalf("%s: %v", name, err)
	}
	s.batches++
	for _, step := range b.Steps {
		s.count[string(step.Do)]++
		s.steps++
	}
	s.doing, s.looking = s.doing+r.Doing, s.looking+r.Looking
	s.count["looked again"] += max(r.Looks-1, 0)
	for answer, n := range r.Answers {
		if strings.HasPrefix(answer, "refused with") {
			if !b.AtAll {
				s.t.Errorf("after %s, step %d: somebody was %s", name, s.steps, answer)
			}
			answer = "refused as dcm was not there"
		}
		s.count["answer: "+answer] += n
	}
	for _, text := range r.Problems {
		s.t.Errorf("after %s, step %d: %s", name, s.steps, text)
	}
	s.holders, s.waiting = r.Holders, r.Waiting
	return r
}

// some are steps of users at once: about as many come as go.
func (s *lessees) some(n int) []crowd.Step {
	steps := make([]crowd.Step, n)
	for i := range steps {
		steps[i] = s.one()
	}
	return steps
}

func (s *lessees) one() crowd.Step {
	goers := []crowd.Deed{crowd.Release, crowd.Release, crowd.Release, crowd.Leave, crowd.Kill, crowd.Kill, crowd.Kill, crowd.KillUnit, crowd.StopUnit}
	step := crowd.Step{Which: s.rand.IntN(64), User: []string{"root", "ada", "bob"}[s.rand.IntN(3)], After: s.moment(30 * time.Millisecond)}
	switch n := s.rand.IntN(100); {
	case s.waiting > 0 && n < 10:
		step.Do = crowd.GiveUp
		return step
	case s.waiting > 0 && n < 70, s.holders > 6 && n < 48, s.holders > []int{8, 16, 64}[s.batches/20%3] && n < 60: // there is room, or there is none
		step.Do = goers[s.rand.IntN(len(goers))]
		return step
	case n > 96 && s.waiting < 3:
		step.Do = crowd.Wait
	case n > 90:
		step.Do = crowd.Abort
	default:
		step.Do = crowd.Acquire
	}
	step.Args = s.asks(step.Do == crowd.Wait)
	return step
}

// asks is what somebody asks for.
func (s *lessees) asks(wait bool) []string {
	args := []string{"-n", strconv.Itoa(1 + min(s.rand.IntN(mostOne), s.rand.IntN(mostOne))), "--place", []string{"pack", "spread", "link"}[s.rand.IntN(3)]}
	switch s.rand.IntN(12) {
	case 0:
		args = append(args, "--exclusive")
	case 1:
		args = append(args, "--share", "2")
	case 2:
		args = append(args, "--share", "3")
	}
	if wait {
		return append(args, "--wait")
	}
	if s.rand.IntN(30) == 0 {
		args[0], args[1] = "--gpus", "1"
	}
	return args
}

func (s *lessees) moment(most time.Duration) time.Duration {
	return time.Duration(s.rand.Int64N(int64(most)))
}

// odd does one of the things that happen to a machine.
func (s *lessees) odd() string {
	s.t.Helper()
	trials := []struct {
		name   string
		weight int
		do     func()
	}{
		{"kill of the daemon", 6, func() { s.try("systemctl kill --signal=KILL dcm"); s.amiss = downed }},
		{"kill of the daemon amid users", 12, func() { s.amid("systemctl kill --signal=KILL dcm", downed) }},
		{"restart of the daemon amid users", 6, func() { s.amid("systemctl restart dcm", downed) }},
		{"daemon-reexec amid users", 6, func() { s.amid("systemctl daemon-reexec", downed) }},
		{"daemon-reload amid users", 6, func() { s.amid("systemctl daemon-reload", downed) }},
		{"generator killed during daemon-reload", 6, s.generatorKilled},
		{"kill of the message bus amid users", 2, func() { s.amid("systemctl kill --signal=KILL dbus", downed) }},
		{"kill of everything", 3, s.killAll},
		{"reservations change", 4, s.change},
		{"reservations change and it is killed", 4, s.changeKilled},
		{"dcm-reserve killed", 6, s.reserveKilled},
		{"reservations change without inotify", 1, s.changeWithoutInotify},
		{"repartition", 4, s.repartition},
		{"repartition amid users", 4, s.repartitionAmid},
		{"a service is started anew amid users", 6, func() { s.amid("systemctl restart alpha beta", downed) }},
		{"the slice is stopped", 2, s.stopSlice},
		{"the guard is killed amid users", 4, s.killGuard},
		{"drain against who waits", 5, s.drain},
		{"kill of the daemon between a move and its answer", 5, s.killMoved},
		{"reboot", 1, s.restart},
	}
	total := 0
	for _, t := range trials {
		total += t.weight
	}
	pick := s.rand.IntN(total)
	for _, t := range trials {
		if pick -= t.weight; pick < 0 {
			s.count["odd: "+t.name]++
			t.do()
			return t.name
		}
	}
	return ""
}

// amid has something done while users come and go, who may be told that it does not work.
func (s *lessees) amid(script string, amiss disquiet) {
	s.t.Helper()
	s.batch(script, crowd.Batch{
		Steps: s.some(4 + s.rand.IntN(5)), AtAll: true,
		Amid: fmt.Sprintf("sleep %.3f; %s", s.moment(100*time.Millisecond).Seconds(), script),
	})
	s.amiss = amiss
}

// end has everybody go.
func (s *lessees) end() {
	s.t.Helper()
	s.batch("the end of all leases", crowd.Batch{End: true})
}

// killAll ends all of dcm and the holders at once.
func (s *lessees) killAll() {
	s.batch("kill of everything", crowd.Batch{
		End: s.rand.IntN(2) == 0, AtAll: true, Amid: "systemctl kill --signal=KILL dcm dcm-apply dcm-reserve dcm-guard alpha beta; systemctl start alpha beta",
	})
	s.amiss = downed
}

func (s *lessees) change() {
	s.alpha, s.beta, s.alone = s.rand.IntN(5), s.rand.IntN(3), s.rand.IntN(2) == 0
	s.configure()
	s.amiss = edited
}

func (s *lessees) changeKilled() {
	s.change()
	s.amid("systemctl kill --signal=KILL "+[]string{"dcm", "dcm-reserve", "dcm-guard", "dcm-apply"}[s.rand.IntN(4)], edited)
}

// reserveKilled kills dcm-reserve.service while it chooses.
func (s *lessees) reserveKilled() {
	s.change()
	s.amid(fmt.Sprintf(`timeout 5 sh -c 'until pid=$(systemctl show -P MainPID dcm-reserve) && [ "$pid" != 0 ]; do :; done; sleep %.3f; kill -KILL $pid'`, s.moment(60*time.Millisecond).Seconds()), repaired)
}

// repairs waits until the daemon has run dcm-reserve.service or dcm-guard.service again, and
// the reserved services are up; nobody starts them.
func (s *lessees) repairs() {
	s.t.Helper()
	failed := "dcm-reserve"
	if s.alpha > 0 && s.alone { // where nothing is exclusive nobody runs the guard again
		failed += " dcm-guard"
	}
	r := s.try(`timeout 120 sh -c 'until systemctl is-active --quiet dcm && systemctl is-active --quiet alpha && systemctl is-active --quiet beta && ! systemctl is-failed --quiet ` + failed + ` &&
		! grep -q -e "\"owed\"" -e "\"retry\"" /run/dcm/state.json; do sleep 0.1; done'`)
	if r.Code != 0 {
		s.t.Errorf("dcm does not repair what a kill left:\n%s", s.run("systemctl status dcm dcm-reserve alpha beta || :; cat /run/dcm/state.json"))
	}
}

// changeWithoutInotify lets the daemon notice a change by polling.
func (s *lessees) changeWithoutInotify() {
	s.refuseInotify()
	s.change()
	s.batch("a change without inotify", crowd.Batch{Steps: s.some(4), AtAll: true})
	s.run("dcm check")
	s.allowInotify()
}

// repartition is refused as long as there are leases.
func (s *lessees) repartition() {
	s.t.Helper()
	if s.rand.IntN(3) > 0 {
		s.end()
	}
	before := s.holders
	s.otherProfile()
	r := s.try("dcm apply")
	if before > 0 && r.Code == 0 {
		s.t.Errorf("with %d leases there was a repartition: %s", before, r.Stdout)
	}
	if before == 0 && r.Code != 0 {
		s.t.Errorf("without a lease there was no repartition: %s", r.Stderr)
	}
	if before > 0 {
		s.count["repartition refused"]++
		s.otherProfile()
	}
	s.amiss = edited
}

func (s *lessees) otherProfile() {
	s.profile = map[bool]string{true: "cpx-fast", false: "qpx-fast"}[s.profile == "qpx-fast"]
	s.configure()
}

// repartitionAmid lets whoever is first win, and then nobody be there.
func (s *lessees) repartitionAmid() {
	s.end()
	s.otherProfile()
	s.amid("true", edited)
	s.batch("a repartition amid users", crowd.Batch{End: true, AtAll: true})
}

// drain waits for the end of all leases, while processes in leases request others and
// users come and go. It ends when the leases have.
func (s *lessees) drain() {
	s.batch("a drain amid users", crowd.Batch{
		Steps: s.waiters(1 + s.rand.IntN(3)), AtAll: true,
		Amid: fmt.Sprintf(`rm -f /run/drained; mkfifo /run/drained
for request in 'exec dcm run -n 2 --wait -- true' 'exec dcm run --wait -- true' 'dcm run -n 2 --wait -- true; :'; do
	setsid dcm run -- sh -c "sleep %.3f; $request" >/dev/null 2>&1 </dev/null &
done
sleep %.3f; setsid sh -c 'dcm apply --when-idle >/run/drain.log 2>&1; echo $? >/run/drained' >/dev/null 2>&1 </dev/null &`,
			s.moment(400*time.Millisecond).Seconds(), s.moment(200*time.Millisecond).Seconds()),
	})
	r := s.batch("the end of a drain", crowd.Batch{End: true, AtAll: true, Amid: "timeout 120 cat /run/drained; cat /run/drain.log >&2"})
	if !strings.HasPrefix(r.Amid, "0\n") {
		s.t.Errorf("a drain has not ended when the leases had: %s", r.Amid)
	}
	s.amiss = downed
}

// killMoved kills the daemon when a process has just been moved into its lease.
func (s *lessees) killMoved() {
	s.batch("kill of the daemon between a move and its answer", crowd.Batch{
		Steps: s.waiters(1 + s.rand.IntN(3)), AtAll: true,
		Amid: `scopes='ls -d /sys/fs/cgroup/dcm.slice/dcm-*.scope'
before=$($scopes 2>/dev/null); export scopes before
timeout 5 sh -c 'while [ "$($scopes 2>/dev/null)" = "$before" ]; do :; done'; systemctl kill --signal=KILL dcm`,
	})
	s.amiss = downed
}

// waiters are users who wait for a lease.
func (s *lessees) waiters(n int) []crowd.Step {
	steps := make([]crowd.Step, n)
	for i := range steps {
		steps[i] = crowd.Step{Do: crowd.Wait, User: []string{"root", "ada", "bob"}[s.rand.IntN(3)], Args: s.asks(true), After: s.moment(300 * time.Millisecond)}
	}
	return steps
}

func (s *lessees) stopSlice() {
	s.run("systemctl stop dcm.slice; systemctl start alpha beta")
	s.amiss = downed
}

func (s *lessees) killGuard() {
	s.amid(fmt.Sprintf("systemctl restart --no-block dcm-guard; sleep %.3f; systemctl kill --signal=KILL dcm-guard", s.moment(60*time.Millisecond).Seconds()), repaired)
}

// generatorKilled has the reserved units started without their drop-ins. dcm restarts them
// with them, by itself.
func (s *lessees) generatorKilled() {
	s.t.Helper()
	s.amid(killing("systemctl daemon-reload; systemctl restart alpha beta"), downed)
	for unit, n := range map[string]int{"alpha": s.alpha, "beta": s.beta} {
		if n > 0 {
			s.run("timeout 120 sh -c 'until systemctl show -P ControlGroup " + unit + " | grep -q ^/dcm.slice; do systemctl show dcm >/dev/null; done'")
		}
	}
}

func (s *lessees) restart() {
	s.crowd.Close()
	s.reboot()
	s.come()
	s.amiss = downed
}

// settle waits until all that is needed is up again.
func (s *lessees) settle() {
	s.t.Helper()
	if s.amiss == repaired {
		s.amiss = quiet
		s.repairs()
		return
	}
	verb := map[disquiet]string{downed: "start", edited: "restart"}[s.amiss]
	if s.amiss = quiet; verb == "" {
		return
	}
	const units = " dcm dcm-apply dcm-reserve dcm-guard alpha beta"
	s.run("systemctl reset-failed" + units + "; systemctl " + verb + " dcm; timeout 60 sh -c 'while systemctl list-jobs --no-legend | grep -q .; do :; done'; systemctl start alpha beta")
}
