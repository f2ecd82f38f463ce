package pid1

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// host has programs that run until they get a signal. A program with a status ends with it immediately.
type host struct {
	m       *Manager
	last    int
	running map[int]string // units, by PID
	status  map[string]int // exit status of a program, if it ends immediately
	ended   []func()
	log     []string
	paths   map[string]bool
}

func newHost(files ...File) *host {
	h := &host{running: make(map[int]string), status: make(map[string]int), paths: make(map[string]bool)}
	h.m = New(h, files)
	return h
}

func (h *host) Spawn(unit, program, _ string) int {
	h.last++
	pid := h.last
	h.running[pid] = unit
	if status, ends := h.status[program]; ends {
		h.ended = append(h.ended, func() { h.m.Exited(unit, pid, status, 0) })
	}
	return pid
}

func (h *host) Signal(pid int, kill bool) {
	unit, sig := h.running[pid], 15
	if kill {
		sig = 9
	}
	h.ended = append(h.ended, func() { h.m.Exited(unit, pid, 0, sig) })
}

func (h *host) Condition(text string) bool  { return h.paths[text] }
func (h *host) Shuffle(int, func(i, j int)) {}
func (h *host) Log(ev Event) {
	if ev.Sub != "" {
		h.log = append(h.log, ev.Unit+" "+ev.Sub)
	} else if ev.Result != "done" {
		h.log = append(h.log, fmt.Sprintf("%s %s job: %s", ev.Unit, ev.Type, ev.Result))
	}
}

// settle passes the ends of processes to PID 1, and what is due until a time.
func (h *host) settle(until time.Duration) {
	for {
		for len(h.ended) > 0 {
			next := h.ended[0]
			h.ended = h.ended[1:]
			next()
		}
		at, ok := h.m.Next()
		if !ok || at > until {
			h.m.At(until)
			return
		}
		h.m.At(at)
		h.m.Advance()
	}
}

func (h *host) start(t *testing.T, names ...string) {
	t.Helper()
	for _, n := range names {
		h.request(t, "start", n)
	}
	h.settle(time.Second)
	h.log = nil
}

func (h *host) request(t *testing.T, kind, name string) {
	t.Helper()
	if _, err := h.m.Request(kind, name, "replace"); err != nil {
		t.Fatal(err)
	}
}

func (h *host) compare(t *testing.T, what, want string) {
	t.Helper()
	if diff := cmp.Diff(strings.Split(want, "\n"), h.log); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
	h.log = nil
}

func oneshot(name string) File {
	return File{Name: name, Type: "oneshot", RemainAfterExit: true, Start: "ok", StartLimitInterval: Forever}
}

func part(name string) File {
	return File{Name: name, Start: "run", PartOf: []string{"apply.service"}, After: []string{"apply.service"}}
}

// A restart stops the parts first and starts them after it.
func TestRestart_Parts(t *testing.T) {
	dependent := File{Name: "c.service", Start: "run", Requires: []string{"b.service"}, After: []string{"b.service"}}
	h := newHost(oneshot("apply.service"), part("b.service"), dependent)
	h.status["ok"] = 0
	h.start(t, "apply.service", "b.service", "c.service")
	before := h.m.Status("b.service").Invocation
	h.request(t, "restart", "apply.service")
	h.settle(2 * time.Second)
	h.compare(t, "restart", `c.service stop-sigterm
c.service dead
b.service stop-sigterm
b.service dead
apply.service dead
apply.service start
apply.service exited
b.service running
c.service running`)
	if h.m.Status("b.service").Invocation == before {
		t.Error("b.service has the same invocation")
	}
}

// If a unit fails its first start, the start job of a unit that requires it ends, and is not queued again.
func TestRestart_DependencyFailsOnce(t *testing.T) {
	b := part("b.service")
	b.StartPre, b.Restart, b.RestartDelay = []string{"once"}, "on-failure", 3*time.Second
	h := newHost(oneshot("apply.service"), b, File{Name: "a.service", Start: "run", Requires: []string{"b.service"}, After: []string{"b.service"}})
	h.status["ok"], h.status["once"] = 0, 0
	h.start(t, "apply.service", "b.service", "a.service")
	h.status["once"] = 1
	h.request(t, "restart", "apply.service")
	h.settle(3 * time.Second)
	h.status["once"] = 0
	h.settle(10 * time.Second)
	a, got := h.m.Status("a.service"), h.m.Status("b.service")
	if a.Active != "inactive" || a.Result != "success" || got.Active != "active" || got.Restarts != 1 {
		t.Errorf("a is %s (%s), b is %s after %d restarts", a.Active, a.Result, got.Active, got.Restarts)
	}
	if !slices.Contains(h.log, "a.service start job: dependency") {
		t.Errorf("log %q", h.log)
	}
}

// A failed oneshot keeps the units down that require it, and not those that are only ordered after it.
func TestRestart_FailedRun(t *testing.T) {
	required := part("r.service")
	required.Requires = []string{"apply.service"}
	h := newHost(oneshot("apply.service"), part("b.service"), required)
	h.status["ok"] = 0
	h.start(t, "apply.service", "b.service", "r.service")
	h.status["ok"] = 1
	h.request(t, "restart", "apply.service")
	h.settle(2 * time.Second)
	for unit, want := range map[string]string{"apply.service": "failed", "b.service": "active", "r.service": "inactive"} {
		if got := h.m.Status(unit).Active; got != want {
			t.Errorf("%s is %s, want %s", unit, got, want)
		}
	}
}

func TestStartLimit_Socket(t *testing.T) {
	h := newHost(File{Name: "s.service", Start: "fail"}, File{Name: "s.socket", Triggers: "s.service"})
	h.status["fail"] = 1
	h.request(t, "start", "s.socket")
	h.m.Connect("s.socket")
	h.settle(time.Second)
	service, socket := h.m.Status("s.service"), h.m.Status("s.socket")
	if service.Active != "failed" || socket.Active != "failed" || socket.Result != "service-start-limit-hit" {
		t.Errorf("service %s (%s), socket %s (%s)", service.Active, service.Result, socket.Active, socket.Result)
	}
	h.m.ResetFailed("s.service")
	if got := h.m.Status("s.service"); got.Active != "inactive" || got.LimitHit {
		t.Errorf("after reset-failed: %+v", got)
	}
}

func TestRestartPolicy(t *testing.T) {
	for _, tt := range []struct {
		policy        string
		status        int
		want          string
		restarts      uint32
		after10Second string
	}{
		{"", 1, "failed", 0, "failed"},
		{"always", 1, "auto-restart", 3, "auto-restart"},
		{"on-failure", 0, "dead", 0, "dead"},
		{"on-success", 0, "auto-restart", 3, "auto-restart"},
	} {
		h := newHost(File{Name: "x.service", Start: "end", Restart: tt.policy, RestartDelay: 3 * time.Second})
		h.status["end"] = tt.status
		h.request(t, "start", "x.service")
		h.settle(time.Second)
		first := h.m.Status("x.service").Sub
		h.settle(10 * time.Second)
		got := h.m.Status("x.service")
		if first != tt.want || got.Sub != tt.after10Second || got.Restarts != tt.restarts {
			t.Errorf("Restart=%s, status %d: %s, then %s after %d restarts", tt.policy, tt.status, first, got.Sub, got.Restarts)
		}
	}
}

// A stop cancels the start that waits, and a start in mode "fail" does not replace a stop.
func TestRequest_Conflicts(t *testing.T) {
	h := newHost(File{Name: "slow.service", Type: "notify", Start: "run"}, File{Name: "x.service", Start: "run", After: []string{"slow.service"}})
	h.request(t, "start", "slow.service")
	h.request(t, "start", "x.service")
	h.request(t, "stop", "x.service")
	if !slices.Contains(h.log, "x.service start job: canceled") {
		t.Errorf("log %q", h.log)
	}
	h.request(t, "stop", "slow.service")
	if _, err := h.m.Request("start", "slow.service", "fail"); err == nil || !strings.Contains(err.Error(), "TransactionIsDestructive") {
		t.Errorf("start during a stop: %v", err)
	}
}

// A start of a unit that waits for its automatic restart is made with that restart.
func TestStart_InAutoRestart(t *testing.T) {
	h := newHost(File{Name: "x.service", Start: "run", Restart: "always", RestartDelay: 3 * time.Second})
	h.start(t, "x.service")
	h.m.Exited("x.service", h.m.Status("x.service").MainPID, 0, 9)
	h.request(t, "start", "x.service")
	h.settle(10 * time.Second)
	if got := h.m.Status("x.service"); got.Active != "active" || got.Job != "" {
		t.Errorf("%+v", got)
	}
}

// From systemd 254 on, an automatic restart is a start job. If it fails with dependency, the service stays
// activating, without a job.
func TestAutoRestart_DependencyFails(t *testing.T) {
	for version, want := range map[int]string{252: "running", 257: "auto-restart-queued"} {
		h := newHost(File{Name: "a.service", Start: "run"},
			File{Name: "b.service", StartPre: []string{"once"}, Start: "run", Restart: "on-failure", Requisite: []string{"a.service"}})
		h.m.Version, h.status["once"] = version, 1
		h.request(t, "restart", "b.service")
		h.settle(0)
		h.status["once"] = 0
		h.settle(20 * time.Second)
		if got := h.m.Status("b.service"); got.Sub != want || got.Job != "" {
			t.Errorf("systemd %d: %s (job %q), want %s", version, got.Sub, got.Job, want)
		}
	}
}

// A unit that is down propagates no stop: its job is dropped, and with it those that only this job pulls in.
func TestStop_OfDownUnit(t *testing.T) {
	for _, link := range []File{
		{Name: "c.service", Start: "run", Requisite: []string{"b.service"}},
		{Name: "c.service", Start: "run", PartOf: []string{"b.service"}},
	} {
		h := newHost(File{Name: "a.service", Start: "run"}, File{Name: "b.service", Start: "run", Requires: []string{"a.service"}}, link)
		h.start(t, "b.service", "c.service")
		h.request(t, "stop", "b.service")
		h.settle(2 * time.Second)
		h.start(t, "b.service", "c.service")
		h.m.Exited("b.service", h.m.Status("b.service").MainPID, 0, 0)
		h.request(t, "stop", "a.service")
		h.settle(4 * time.Second)
		if got := h.m.Status("c.service").Active; got != "active" {
			t.Errorf("%+v is %s", link, got)
		}
	}
}

// Jobs without an order between them run in the order of their units' names.
func TestDispatch_ByName(t *testing.T) {
	h := newHost(File{Name: "a.service", Start: "run"},
		File{Name: "b.service", Start: "run", Requisite: []string{"a.service"}},
		File{Name: "c.service", Start: "run", Requires: []string{"b.service"}, After: []string{"a.service", "b.service"}})
	h.request(t, "restart", "c.service")
	h.settle(time.Second)
	for _, unit := range []string{"b.service", "c.service"} {
		if got := h.m.Status(unit).Active; got != "inactive" {
			t.Errorf("%s is %s", unit, got)
		}
	}
}

func TestParseFile(t *testing.T) {
	got := ParseFile("x.service", "[Unit]\nAfter=a.service b.service\nStartLimitIntervalSec=0\n[Service]\n# Type=simple\nType=notify\nTimeoutStartSec=30min\nRestart=on-failure\nRestartSec=1s\nRestartPreventExitStatus=64\n")
	want := File{Name: "x.service", Type: "notify", After: []string{"a.service", "b.service"}, StartLimitInterval: Forever, TimeoutStart: 30 * time.Minute, Restart: "on-failure", RestartDelay: time.Second, RestartPrevent: []int{64}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
