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
)

// booted is a simulated node with the real dcm, booted by internal/testkit/e2e.
type booted struct {
	*world
	client client.Client
	link   string // link to the socket of this boot
	asked  string // directory of the requests to the host
}

// TestOneHost uses one node with the real dcm.
func TestOneHost(t *testing.T) {
	socket := os.Getenv("DCM_SOCKET")
	if socket == "" {
		t.Skip("run by TestKubernetes of internal/testkit/e2e")
	}
	h := &booted{world: newWorld(t), link: filepath.Join(t.TempDir(), "socket"), asked: os.Getenv("DCM_HOST")}
	h.client = client.Client{Socket: h.link}
	h.turnTo(socket)
	h.plugin()
	h.join("host", func() int { return sequence.Host{Partitions: h.account().Partitions()}.Total() })
	h.enlist("host")
	h.play()
	h.budget(1)
	h.until("the plugin", []string{"host"}, func(o object) bool { return sub(o, "status", "allocatable")["amd.com/gpu"] != nil })
	program := h.program()
	t.Run("from label to success", func(t *testing.T) { h.times(t, program) })
	a := h.agent(program, "host", h.link)
	t.Run("an unknown profile", h.unknown)
	for _, at := range []sequence.Phase{sequence.Waiting, sequence.Draining, sequence.Applying, sequence.Refreshing} {
		t.Run("a reboot in phase "+string(at), func(t *testing.T) { h.rebootAt(t, a, at) })
	}
}

func (h *booted) turnTo(socket string) {
	h.t.Helper()
	os.Remove(h.link)
	if err := os.Symlink(socket, h.link); err != nil {
		h.t.Fatal(err)
	}
}

// account returns the account of dcm. It waits until dcm answers.
func (h *booted) account() client.Account {
	for {
		a, err := h.client.Account(h.ctx)
		if err == nil {
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

// success waits until the profile is on the GPUs, and checks the node.
func (h *booted) success(t *testing.T, profile string) {
	t.Helper()
	h.until("success", []string{"host"}, applied(profile, "success"))
	h.free()
	want := map[string]int{"small": 64, "whole": 8}[profile]
	if wrong := h.wrong("host"); wrong != nil || h.divided("host") != want {
		t.Errorf("%s: %q; %d partitions", profile, wrong, h.divided("host"))
	}
}

// times logs the duration of changes with the default intervals, with and without a pod to evict.
func (h *booted) times(t *testing.T, program string) {
	a := h.plainAgent(program, "host", h.link)
	defer a.kill()
	for _, with := range []bool{false, true} {
		var took []time.Duration
		for i, profile := range []string{"small", "whole", "small", "whole", "small", "whole"} {
			if with {
				h.job("job-"+string(rune('a'+i)), "host")
			}
			begun := time.Now()
			h.label("host", profile)
			h.until("success", []string{"host"}, applied(profile, "success"))
			took = append(took, time.Since(begun).Round(time.Millisecond))
			h.success(t, profile)
		}
		slices.Sort(took)
		t.Logf("from label to success, with a pod to evict %v: %v in the middle of %v", with, took[len(took)/2], took)
	}
}

func (h *booted) unknown(t *testing.T) {
	before := h.divided("host")
	h.label("host", "tiny")
	h.until("failure", []string{"host"}, func(o object) bool {
		return applied("tiny", "failure")(o) && strings.HasPrefix(condition(o), "False NonExistentProfile: ")
	})
	t.Log(condition(h.do(http.MethodGet, nodes+"/host", nil)))
	if h.divided("host") != before {
		t.Errorf("there are %d partitions", h.divided("host"))
	}
}

// rebootAt reboots the host in a phase. The agent ends and starts with the host.
func (h *booted) rebootAt(t *testing.T, a *agent, at sequence.Phase) {
	profile := map[int]string{8: "small", 64: "whole"}[h.divided("host")]
	let := h.stopAt(at)
	h.job("job-"+string(at), "host")
	h.label("host", profile)
	h.until(string(at), []string{"host"}, func(o object) bool { return phase(o) == at || applied(profile, "success")(o) })
	a.kill()
	was := phase(h.do(http.MethodGet, nodes+"/host", nil))
	h.turnTo(h.ask("reboot"))
	let()
	a.start()
	h.rebooted("host")
	h.success(t, profile)
	t.Logf("rebooted in phase %q (want %q): success", was, at)
	if was != at {
		t.Errorf("rebooted in phase %q", was)
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

// stopAt stops a change in a phase.
func (h *booted) stopAt(at sequence.Phase) (let func()) {
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
		h.ask("hang") // until the reboot
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
