package real_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	client "dcm/cmd/dcm-kubernetes/internal/agent"
	"dcm/cmd/dcm-kubernetes/internal/cluster"
	"dcm/cmd/dcm-kubernetes/internal/sequence"
	"dcm/cmd/dcm-kubernetes/internal/vendor"
)

// booted is a simulated node with the real dcm, booted by internal/testkit/e2e.
type booted struct {
	*world
	vendor   *vendor.Vendor
	profiles []choice // in turn
	client   client.Client
	link     string // link to the socket of this boot
	asked    string // directory of the requests to the host
}

// choice is a profile and the number of partitions that it has on the node.
type choice struct {
	profile    string
	partitions int
}

// halves is a configuration that mig-parted does not generate.
const halves = `version: v1
mig-configs:
  halves:
  - devices: all
    mig-enabled: true
    mig-devices: {"3g.40gb": 2}
`

// TestOneHost uses one node with the real dcm. Its GPUs decide which vendor's labels it has.
func TestOneHost(t *testing.T) {
	socket := os.Getenv("DCM_SOCKET")
	if socket == "" {
		t.Skip("run by TestKubernetes of internal/testkit/e2e")
	}
	h := &booted{world: newWorld(t), link: filepath.Join(t.TempDir(), "socket"), asked: os.Getenv("DCM_HOST")}
	h.client = client.Client{Socket: h.link}
	h.turnTo(socket)
	h.vendor, h.profiles = vendor.AMD, []choice{{"small", 64}, {"whole", 8}}
	if h.dcm().MIG().GPUs > 0 {
		h.vendor, h.profiles = vendor.NVIDIA, []choice{{"all-1g.10gb", 56}, {"halves", 16}}
		h.config("config.yaml", halves)
	}
	h.plugin()
	h.operands()
	h.join("host", h.dcm)
	if h.vendor == vendor.NVIDIA {
		h.operated("host")
	}
	h.enlist("host")
	h.play()
	h.budget(1)
	h.until("the plugin", []string{"host"}, func(o object) bool {
		return strings.Contains(fmt.Sprint(sub(o, "status", "allocatable")), h.vendor.Name+".com/")
	})
	program := h.program()
	t.Run("from label to success", func(t *testing.T) { h.times(t, program) })
	a := h.agent(program, "host", h.link)
	t.Run("an unknown profile", h.unknown)
	for _, what := range []struct {
		name   string
		hang   string
		happen func(let func())
	}{
		{"agent killed", "linger", func(let func()) { a.kill(); a.start(); let() }},
		{"dcm killed", "linger", func(let func()) { h.ask("kill"); let() }},
		{"host rebooted", "hang", func(let func()) {
			a.kill()
			h.turnTo(h.ask("reboot"))
			let()
			a.start()
			h.rebooted("host")
		}},
	} {
		for _, at := range []sequence.Phase{sequence.Waiting, sequence.Draining, sequence.Applying, sequence.Refreshing} {
			t.Run(what.name+" in phase "+string(at), func(t *testing.T) { h.interrupt(t, at, what.hang, what.happen) })
		}
	}
}

func (h *booted) turnTo(socket string) {
	h.t.Helper()
	os.Remove(h.link)
	if err := os.Symlink(socket, h.link); err != nil {
		h.t.Fatal(err)
	}
}

// dcm returns the account of the real dcm. It waits until dcm answers and has read the GPUs.
func (h *booted) dcm() client.Account {
	for {
		a, err := h.client.Account(h.ctx)
		if err == nil && !a.Starting() && (len(a.GPUs) > 0 || a.Running()) {
			return a
		}
		select {
		case <-h.ctx.Done():
			h.t.Errorf("dcm does not answer: %v", err)
			return a
		case <-time.After(200 * time.Millisecond): // it is starting
		}
	}
}

// next selects the profile that the GPUs do not have.
func (h *booted) next() choice {
	l := h.profiles[0]
	if h.divided("host") == l.partitions {
		l = h.profiles[1]
	}
	h.mark("host", h.vendor.Profile, l.profile)
	return l
}

func (h *booted) applied(profile, state string) func(object) bool {
	return appliedOf(h.vendor, profile, state)
}

// work creates a pod that uses a GPU.
func (h *booted) work(name string) { h.jobOn(name, "host", h.vendor.Name+".com/gpu") }

// success waits until the profile is on the GPUs, and checks the node.
func (h *booted) success(t *testing.T, l choice) {
	t.Helper()
	h.until("success", []string{"host"}, h.applied(l.profile, "success"))
	h.free()
	if wrong := h.wrong("host"); wrong != nil || h.divided("host") != l.partitions {
		t.Errorf("%s: %q; %d partitions, want %d", l.profile, wrong, h.divided("host"), l.partitions)
	}
}

// times logs the duration of changes with the default intervals, with and without a pod to evict.
func (h *booted) times(t *testing.T, program string) {
	a := h.plainAgent(program, "host", h.link)
	defer a.kill()
	for _, with := range []bool{false, true} {
		var took []time.Duration
		for i := range 6 {
			if with {
				h.work(fmt.Sprint("job-", i))
			}
			begun := time.Now()
			l := h.next()
			h.until("success", []string{"host"}, h.applied(l.profile, "success"))
			took = append(took, time.Since(begun).Round(time.Millisecond))
			h.success(t, l)
		}
		slices.Sort(took)
		t.Logf("from label to success, with a pod to evict %v: %v in the middle of %v", with, took[len(took)/2], took)
	}
}

func (h *booted) unknown(t *testing.T) {
	before := h.divided("host")
	h.mark("host", h.vendor.Profile, "tiny")
	h.until("failure", []string{"host"}, func(o object) bool {
		return h.applied("tiny", "failure")(o) && strings.HasPrefix(condition(o), "False NonExistentProfile: ")
	})
	t.Log(condition(h.do(http.MethodGet, nodes+"/host", nil)))
	if h.divided("host") != before {
		t.Errorf("there are %d partitions", h.divided("host"))
	}
}

// interrupt stops a change in a phase, and lets something happen there, which then lets it continue. The
// change is completed.
func (h *booted) interrupt(t *testing.T, at sequence.Phase, hang string, happen func(let func())) {
	let := h.stopAt(at, hang)
	h.work(strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name())))
	l := h.next()
	h.until(string(at), []string{"host"}, func(o object) bool { return phase(o) == at || h.applied(l.profile, "success")(o) })
	if at == sequence.Applying {
		h.running()
	}
	was := phase(h.do(http.MethodGet, nodes+"/host", nil))
	happen(let)
	h.success(t, l)
	t.Logf("in phase %q (want %q): success", was, at)
	if was != at {
		t.Errorf("phase %q", was)
	}
}

// running waits until dcm changes the GPUs.
func (h *booted) running() {
	for !h.dcm().Running() {
		select {
		case <-h.ctx.Done():
			h.t.Fatal("dcm does not change the GPUs")
		case <-time.After(100 * time.Millisecond): // accounts are not followed here
		}
	}
}

// ask sends a request to the host and returns the new path of dcm's socket.
func (h *booted) ask(what string) (socket string) {
	h.t.Helper()
	conn, err := net.Dial("unix", h.asked)
	if err != nil {
		h.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintln(conn, what); err != nil {
		h.t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil || len(answer) == 0 {
		h.t.Fatalf("the host does not %s: %q, %v", what, answer, err)
	}
	return strings.TrimSpace(string(answer))
}

// stopAt stops a change in a phase. hang is the request to the host that stops it in phase applying.
func (h *booted) stopAt(at sequence.Phase, hang string) (let func()) {
	const budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
	switch at {
	case sequence.Waiting:
		// Another node holds the only Lease.
		op, _ := json.Marshal(sequence.Operation{ID: "x", Phase: sequence.Draining})
		h.do(http.MethodPost, nodes, object{"metadata": object{"name": "other", "annotations": object{cluster.Operation: string(op)}}})
		h.hold1("other/x")
		return func() { h.hold1("") }
	case sequence.Draining:
		h.do(http.MethodPost, budgets, object{"metadata": object{"name": "b"}, "spec": object{"minAvailable": 1, "selector": object{"matchLabels": object{"app": "job"}}}})
		return func() { h.do(http.MethodDelete, budgets+"/b", nil) }
	case sequence.Applying:
		h.ask(hang)
		return func() { h.ask("go on") }
	case sequence.Refreshing:
		return h.keep("plugin")
	}
	return func() {}
}

// hold1 gives the first Lease of the budget to a holder; "" releases it.
func (h *booted) hold1(who string) {
	lease := h.do(http.MethodGet, leases+"/dcm-budget-1", nil)
	lease["spec"] = object{}
	if who != "" {
		lease["spec"] = object{"holderIdentity": who}
	}
	h.do(http.MethodPut, leases+"/dcm-budget-1", lease)
}
