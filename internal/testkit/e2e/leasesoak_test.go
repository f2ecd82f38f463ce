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
	"dcm/internal/testkit/e2e/leasesoak"
	"dcm/internal/testkit/soak"
	"dcm/internal/testkit/testdeadline"
)

// leases runs random actions of many clients, and sometimes an action of an operator or a
// crash. After each batch it checks that no partition has two holders and none is lost.
// DCM_SOAK is the duration or the number of steps. DCM_SEED repeats a run's choices.
func leases(t *testing.T, p product) {
	t.Parallel()
	text := os.Getenv("DCM_SOAK")
	most, _ := strconv.Atoi(text)
	length, err := time.ParseDuration(text)
	if err != nil {
		length = defaultSoakTimeout
	}
	s := newLeaseSoak(t, p, soak.Rand(t))
	began, logged := time.Now(), time.Now()
	for !t.Failed() && (most > 0 && s.steps < most || most == 0 && time.Since(began) < length) {
		s.trial()
		if time.Since(logged) > time.Minute {
			logged = time.Now()
			t.Log(s.progress(began))
		}
	}
	if !t.Failed() {
		t.Logf("%s; no partition has two holders and none is lost: %s", s.progress(began), tally(s.count))
	}
}

// leaseSoak is a machine with a changing set of leases.
type leaseSoak struct {
	machine
	clients   *leasesoak.Conn
	rand      *rand.Rand
	steps     int
	batches   int
	acting    time.Duration
	checking  time.Duration
	count     map[string]int
	holders   int // clients with a lease at the last check
	waiting   int
	profile   string
	alpha     int // partitions reserved for alpha; no reservation if 0
	exclusive bool
	beta      int
	recovery  recovery
	args      func(wait bool) []string // of a request
	expect    func(*leasesoak.Batch)   // sets what the check of a batch expects
}

// recovery selects what must happen before the next check.
type recovery int

const (
	noRecovery   recovery = iota
	startUnits            // a process was killed
	restartUnits          // the configuration may not be effective
	awaitDaemon           // a process was killed that the daemon runs again
)

const (
	fullCheckEvery = 20 // number of batches between full checks
	faultEvery     = 12 // average number of trials between faults
	maxPartitions  = 5  // maximum number of partitions in a request
	maxSteps       = 40 // maximum number of steps in a batch
)

func newLeaseSoak(t *testing.T, p product, r *rand.Rand) *leaseSoak {
	m := installWith(t, e2e.Trixie(), p, driverless())
	m.put("/etc/systemd/system/alpha.service", holder)
	m.put("/etc/systemd/system/beta.service", holder)
	m.run("systemctl daemon-reload; systemctl add-wants multi-user.target alpha beta; useradd --create-home --groups dcm ada; useradd --create-home --groups dcm bob")
	m.killableGenerator()
	s := &leaseSoak{machine: m, rand: r, count: make(map[string]int), profile: "cpx-fast", alpha: 2, exclusive: true, beta: 1}
	s.args, s.expect = s.request, func(b *leasesoak.Batch) {
		b.Parts, b.Largest = map[string]int{"cpx-fast": 64, "qpx-fast": 32}[s.profile], maxPartitions
	}
	s.configure()
	s.run("systemctl restart dcm; systemctl start alpha beta")
	s.startClients()
	s.batch("start", leasesoak.Batch{Full: true})
	return s
}

// progress describes the trial up to now.
func (s *leaseSoak) progress(began time.Time) string {
	return fmt.Sprintf("%d steps in %d batches, %.0f s: %.0f s of actions, %.0f s of checks", s.steps, s.batches, time.Since(began).Seconds(), s.acting.Seconds(), s.checking.Seconds())
}

// startClients starts the agent for the clients as a service.
func (s *leaseSoak) startClients() {
	s.t.Helper()
	s.run("rm -f /run/leasesoak; systemd-run --quiet --collect --unit=leasesoak e2e-agent leasesoak /e2e/leasesoak.sock /run/leasesoak")
	s.await("/run/leasesoak", "ready")
	var err error
	if s.clients, err = leasesoak.Dial(s.Shared("leasesoak.sock")); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { s.clients.Close() })
}

func (s *leaseSoak) configure() {
	s.t.Helper()
	text := fmt.Sprintf(reserving, s.profile, 0)
	text = text[:strings.Index(text, "[[reservation]]")]
	if s.alpha > 0 {
		text += fmt.Sprintf("[[reservation]]\nunit = \"alpha\"\npartitions = %d\nexclusive = %t\n", s.alpha, s.exclusive)
	}
	if s.beta > 0 {
		text += fmt.Sprintf("[[reservation]]\nunit = \"beta\"\npartitions = %d\nplace = \"spread\"\n", s.beta)
	}
	s.put(settings, text+"\n[leases]\nshares = 3\n")
}

// trial runs a batch of clients, or a fault, and checks the partitions.
func (s *leaseSoak) trial() {
	s.t.Helper()
	if s.rand.IntN(faultEvery) > 0 {
		s.batch("actions of clients", leasesoak.Batch{Steps: s.randomSteps(1 + s.rand.IntN(maxSteps)), Full: s.batches%fullCheckEvery == 0})
		return
	}
	name := s.fault()
	s.recover()
	s.batch(name, leasesoak.Batch{Full: true})
}

// batch runs a batch and fails the test on each problem.
func (s *leaseSoak) batch(name string, b leasesoak.Batch) leasesoak.Reply {
	s.t.Helper()
	s.expect(&b)
	ctx, cancel := testdeadline.Context(s.t.Context(), 2*waitTimeout)
	defer cancel()
	r, err := s.clients.Do(ctx, b)
	if err != nil {
		s.t.Fatalf("%s: %v", name, err)
	}
	s.batches++
	for _, step := range b.Steps {
		s.count[string(step.Do)]++
		s.steps++
	}
	s.acting, s.checking = s.acting+r.Acting, s.checking+r.Checking
	s.count["repeated check"] += max(r.Attempts-1, 0)
	for answer, n := range r.Answers {
		if strings.HasPrefix(answer, "refused with") {
			if !b.Unchecked {
				s.t.Errorf("after %s, step %d: want a grant, got: %s", name, s.steps, answer)
			}
			answer = "refused without a daemon"
		}
		s.count["answer: "+answer] += n
	}
	for _, text := range r.Problems {
		s.t.Errorf("after %s, step %d: %s", name, s.steps, text)
	}
	s.holders, s.waiting = r.Holders, r.Waiting
	return r
}

// randomSteps are concurrent steps: about as many clients start as end.
func (s *leaseSoak) randomSteps(n int) []leasesoak.Step {
	steps := make([]leasesoak.Step, n)
	for i := range steps {
		steps[i] = s.randomStep()
	}
	return steps
}

func (s *leaseSoak) randomStep() leasesoak.Step {
	ends := []leasesoak.Action{leasesoak.Release, leasesoak.Release, leasesoak.Release, leasesoak.Leave, leasesoak.Kill, leasesoak.Kill, leasesoak.Kill, leasesoak.KillUnit, leasesoak.StopUnit}
	step := leasesoak.Step{Which: s.rand.IntN(64), User: []string{"root", "ada", "bob"}[s.rand.IntN(3)], After: s.delay(30 * time.Millisecond)}
	switch n := s.rand.IntN(100); {
	case s.waiting > 0 && n < 10:
		step.Do = leasesoak.GiveUp
		return step
	case s.waiting > 0 && n < 70, s.holders > 6 && n < 48, s.holders > []int{8, 16, 64}[s.batches/20%3] && n < 60: // the node is sometimes nearly empty, sometimes full
		step.Do = ends[s.rand.IntN(len(ends))]
		return step
	case n > 96 && s.waiting < 3:
		step.Do = leasesoak.Wait
	case n > 90:
		step.Do = leasesoak.Abort
	default:
		step.Do = leasesoak.Acquire
	}
	step.Args = s.args(step.Do == leasesoak.Wait)
	return step
}

// request returns the arguments of dcm run.
func (s *leaseSoak) request(wait bool) []string {
	args := []string{"-n", strconv.Itoa(1 + min(s.rand.IntN(maxPartitions), s.rand.IntN(maxPartitions))), "--place", []string{"pack", "spread", "link"}[s.rand.IntN(3)]}
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

func (s *leaseSoak) delay(most time.Duration) time.Duration {
	return time.Duration(s.rand.Int64N(int64(most)))
}

func (s *leaseSoak) restart() {
	s.clients.Close()
	s.reboot()
	s.startClients()
	s.recovery = startUnits
}

// recover waits until the units that the check needs are active.
func (s *leaseSoak) recover() {
	s.t.Helper()
	if s.recovery == awaitDaemon {
		s.recovery = noRecovery
		s.repairs()
		return
	}
	verb := map[recovery]string{startUnits: "start", restartUnits: "restart"}[s.recovery]
	if s.recovery = noRecovery; verb == "" {
		return
	}
	const units = " dcm dcm-apply dcm-reserve dcm-guard alpha beta"
	s.run("systemctl reset-failed" + units + "; systemctl " + verb + " dcm")
	s.until("! systemctl list-jobs --no-legend | grep .")
	s.run("systemctl start alpha beta")
}
