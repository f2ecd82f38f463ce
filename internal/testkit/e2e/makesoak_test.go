package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"dcm/internal/gpu/nvml/standin"
	"dcm/internal/testkit/e2e"
	"dcm/internal/testkit/e2e/leasesoak"
	"dcm/internal/testkit/soak"
)

// makes starts random leases that create their partitions, on a node of each vendor, and kills dcm's
// processes, reboots and cuts the power. After each batch it checks that nothing is given twice and nothing is
// left, and at the end that the node can give what it could give at the start. DCM_SOAK is the duration,
// or the number of leases of both nodes. DCM_SEED repeats a run's choices.
func makes(t *testing.T, p product) {
	t.Parallel()
	most, _ := strconv.Atoi(os.Getenv("DCM_SOAK"))
	length, err := time.ParseDuration(os.Getenv("DCM_SOAK"))
	if err != nil {
		length = defaultSoakTimeout
	}
	var total atomic.Int64 // leases of both nodes
	for name, node := range map[string]func(*testing.T, product, *rand.Rand) *makeSoak{"amd": modeSoak, "nvidia": instanceSoak} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := node(t, p, soak.Rand(t))
			began, logged := time.Now(), time.Now()
			start := s.capacity()
			for !t.Failed() && (most > 0 && int(total.Load()) < most || most == 0 && time.Since(began) < length) {
				before := s.given()
				s.trial()
				total.Add(int64(s.given() - before))
				if time.Since(logged) > time.Minute {
					logged = time.Now()
					t.Logf("%d leases; %s: %s", s.given(), s.progress(began), tally(s.count))
				}
			}
			if t.Failed() {
				t.Log(tally(s.count))
				return
			}
			if end := s.capacity(); end != start {
				t.Errorf("largest number of leases: want that of the start, %d, got %d", start, end)
			}
			t.Logf("%d leases, longest check %s; %s; nothing is left or given twice: %s", s.given(), s.longest, s.progress(began), tally(s.count))
		})
	}
}

// makeSoak is a node with a changing set of leases that make their partitions.
type makeSoak struct {
	*leaseSoak
	all     []string // the arguments of the smallest request
	most    int      // more than the node can give of these
	rest    []string // the GPUs without leases
	longest time.Duration
	counted int // leases given to count the capacity
}

// maxMakeSteps is the maximum number of steps in a batch. It is large, since the check of a batch takes longer than
// a step.
const maxMakeSteps = 3 * maxSteps

// given is the number of random leases.
func (s *makeSoak) given() int { return s.count["answer: granted"] - s.counted }

// newMakeSoak starts the clients on a node that has the configuration.
func newMakeSoak(m machine, r *rand.Rand) *makeSoak {
	m.t.Helper()
	m.run("useradd --create-home --groups dcm ada; useradd --create-home --groups dcm bob")
	s := &makeSoak{leaseSoak: &leaseSoak{machine: m, rand: r, count: make(map[string]int)}}
	s.expect = func(b *leasesoak.Batch) { b.Make, b.Rest = true, s.rest }
	s.startClients()
	s.rest = s.do("start", leasesoak.Batch{Full: true}).Hardware
	m.t.Logf("GPUs at rest: %q", s.rest)
	return s
}

// instanceSoak is a node whose leases make MIG instances.
func instanceSoak(t *testing.T, p product, r *rand.Rand) *makeSoak {
	lib, err := standin.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	more := driverlessNVIDIA()
	more[nodeless] = e2e.File{}
	m := nvidiaNode(t, e2e.Trixie(), p, "h100-8", lib, more)
	m.run("systemctl disable --now amd-metrics-exporter gpuagent")
	m.knob("nodes /dev 509")
	m.put(settings, `profile = "dynamic"
[[profiles.dynamic.group]]
mig = { "2g.20gb" = 1 }
count = 4
dynamic = true
[[profiles.dynamic.group]]
mig = {}
count = "rest"
dynamic = true
`)
	m.run("systemctl restart dcm && dcm apply && dcm status")
	s := newMakeSoak(m, r)
	s.all, s.most = []string{"--make", "1g.10gb"}, 60
	s.args = func(wait bool) []string {
		profiles := []string{"1g.10gb", "1g.10gb", "1g.10gb", "2g.20gb", "2g.20gb", "3g.40gb", "3g.40gb", "1g.20gb", "4g.40gb"}
		return waits(wait, "--make", profiles[r.IntN(len(profiles))])
	}
	return s
}

// modeSoak is a node whose leases switch compute modes. A process uses the first GPU, which is not dynamic.
func modeSoak(t *testing.T, p product, r *rand.Rand) *makeSoak {
	m := install(t, e2e.Trixie(), p)
	m.put("/etc/systemd/system/other.service", "[Unit]\nAfter=dcm-apply.service\n[Service]\nExecStart=sh -c 'exec 3</dev/dri/renderD128 4</dev/kfd; sleep infinity & wait'\n")
	m.run("cd /etc/systemd/system/multi-user.target.wants && rm -f amd-metrics-exporter.service gpuagent.service dashboard.service; systemctl stop amd-metrics-exporter gpuagent dashboard; systemctl daemon-reload; systemctl add-wants multi-user.target other")
	m.put(settings, `profile = "dynamic"
[leases]
idle-time = "1s"
dwell-time = "0s"
[profiles.dynamic]
memory = "NPS1"
[[profiles.dynamic.group]]
compute = "SPX"
gpus = [0]
[[profiles.dynamic.group]]
compute = "SPX"
count = "rest"
dynamic = true
`)
	m.run("systemctl restart dcm && dcm apply && systemctl start other && dcm status")
	s := newMakeSoak(m, r)
	s.all, s.most = []string{"--make", "CPX"}, 60
	s.args = func(wait bool) []string {
		modes := []string{"CPX", "CPX", "CPX", "QPX", "DPX"}
		mode := modes[r.IntN(len(modes))]
		most := map[string]int{"CPX": 4, "QPX": 3, "DPX": 2}[mode]
		return waits(wait, "--make", mode, "-n", strconv.Itoa(1+r.IntN(most)))
	}
	return s
}

func waits(wait bool, args ...string) []string {
	if wait {
		args = append(args, "--wait")
	}
	return args
}

// do runs a batch. Most clients are root's, which have no budget.
func (s *makeSoak) do(name string, b leasesoak.Batch) leasesoak.Reply {
	s.t.Helper()
	for i := range b.Steps {
		if s.rand.IntN(8) > 0 {
			b.Steps[i].User = "root"
		}
	}
	r := s.batch(name, b)
	if s.count["killed processes"] += strings.Count(r.Output, "killed"); !b.Unchecked {
		s.longest = max(s.longest, r.Checking)
	}
	return r
}

// quiet ends all leases, after each waiting process had one, and expects the GPUs at rest.
func (s *makeSoak) quiet(name string) {
	s.t.Helper()
	s.do(name, leasesoak.Batch{Serve: true, End: true, Full: true})
}

// capacity returns how many of the smallest leases the node can give.
func (s *makeSoak) capacity() int {
	s.t.Helper()
	s.quiet("before counting")
	before := s.given()
	for s.given()-before < s.most && !s.t.Failed() {
		n := s.given()
		steps := make([]leasesoak.Step, 10)
		for i := range steps {
			steps[i] = leasesoak.Step{Do: leasesoak.Acquire, User: "root", Args: s.all}
		}
		if s.batch("counting", leasesoak.Batch{Steps: steps}); s.given() == n {
			break
		}
	}
	n := s.given() - before
	s.counted += n
	s.quiet("after counting")
	return n
}

// trial runs a batch of clients, or a fault, and checks the GPUs.
func (s *makeSoak) trial() {
	s.t.Helper()
	switch n := s.rand.IntN(16); {
	case n > 3:
		s.do("actions of clients", leasesoak.Batch{Steps: s.randomSteps(1 + s.rand.IntN(maxMakeSteps)), Full: s.batches%fullCheckEvery == 0})
	case n > 0:
		name := s.fault()
		s.run("systemctl reset-failed; systemctl start dcm")
		s.do(name, leasesoak.Batch{Full: true})
	default:
		s.quiet("end of all leases")
	}
}

// fault runs a crash, or an action of an operator, during requests.
func (s *makeSoak) fault() string {
	s.t.Helper()
	step := soak.Pick(s.rand, []soak.Step{
		{Name: "kill of the daemon", Weight: 10, Do: func() { s.during(s.sleep(300) + kills("dcm.service")) }},
		{Name: "kill of makers", Weight: 14, Do: func() { s.during(s.making() + kills("dcm-make@*")) }},
		{Name: "kill of makers and the daemon", Weight: 10, Do: func() { s.during(s.making() + kills("dcm-make@*", "dcm.service")) }},
		{Name: "series of kills", Weight: 8, Do: s.series},
		{Name: "kill of all processes", Weight: 4, Do: func() { s.during(s.making() + kills("dcm*")) }},
		{Name: "kill of the bus", Weight: 1, Do: func() { s.during(s.sleep(200) + "systemctl kill --signal=KILL dbus") }},
		{Name: "restart of the daemon", Weight: 4, Do: func() { s.during(s.sleep(200) + "systemctl restart dcm") }},
		{Name: "daemon-reexec", Weight: 3, Do: func() { s.during(s.sleep(200) + "systemctl daemon-reexec") }},
		{Name: "daemon-reload", Weight: 3, Do: func() { s.during(s.sleep(200) + "systemctl daemon-reload") }},
		{Name: "apply", Weight: 3, Do: func() { s.during(s.sleep(200) + "systemctl restart dcm-apply") }},
		{Name: "stop of kept modes", Weight: 4, Do: func() { s.during(s.making() + "systemctl stop 'dcm-keep@*'") }},
		{Name: "stop of makers", Weight: 4, Do: func() { s.during(s.making() + "systemctl stop 'dcm-make@*'") }},
		{Name: "stop of the slice", Weight: 2, Do: func() { s.during(s.making() + "systemctl stop dcm.slice") }},
		{Name: "reboot", Weight: 6, Do: func() { s.restartDuring("systemctl reboot") }},
		{Name: "power cut", Weight: 8, Do: func() { s.restartDuring("systemctl reboot --force --force") }},
	})
	s.count["fault: "+step.Name]++
	step.Do()
	return step.Name
}

// during runs a script while clients start and end. A request may fail.
func (s *makeSoak) during(script string) {
	s.t.Helper()
	s.do(script, leasesoak.Batch{Steps: s.randomSteps(4 + s.rand.IntN(16)), Unchecked: true, Script: script})
}

// series kills the daemon or makers several times.
func (s *makeSoak) series() {
	script := ""
	for range 3 + s.rand.IntN(4) {
		script += s.sleep(250) + kills([]string{"dcm.service", "dcm-make@*"}[s.rand.IntN(2)]) + "systemctl reset-failed dcm; systemctl start --no-block dcm\n"
	}
	s.during(script)
}

// sleep returns a command that sleeps for a random time.
func (s *makeSoak) sleep(most int) string {
	return fmt.Sprintf("sleep 0.%03d; ", s.rand.IntN(most))
}

// making returns a command that waits for a maker, and then for a random time.
func (s *makeSoak) making() string {
	return "timeout 2 " + waitFor("cat "+inDCM+"/dcm-make@*/cgroup.procs 2>/dev/null | grep -q .") + "; " + s.sleep(150)
}

// inDCM is the cgroup of dcm's units.
const inDCM = "/sys/fs/cgroup/system.slice/system-dcm.slice"

// kills returns a command that kills the processes of units and prints a line for each.
func kills(patterns ...string) string {
	files := ""
	for _, p := range patterns {
		files += " " + inDCM + "/" + p + "/cgroup.procs /sys/fs/cgroup/system.slice/" + p + "/cgroup.procs"
	}
	return "for pid in $(cat" + files + " 2>/dev/null); do kill -KILL $pid && echo killed; done\n"
}

// restartDuring ends the boot while clients start and end. Their answers are lost.
func (s *makeSoak) restartDuring(command string) {
	s.t.Helper()
	steps := s.randomSteps(4 + s.rand.IntN(16))
	cut := leasesoak.Batch{Steps: steps, Unchecked: true, Script: s.sleep(600) + command}
	s.expect(&cut)
	s.clients.Do(s.t.Context(), cut) // the connection ends
	s.clients.Close()
	s.rebootedByItself()
	s.startClients()
}
