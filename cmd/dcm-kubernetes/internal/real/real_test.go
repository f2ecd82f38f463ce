package real_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"dcm/cmd/dcm-kubernetes/internal/bridge"
	"dcm/cmd/dcm-kubernetes/internal/cluster"
	"dcm/cmd/dcm-kubernetes/internal/desired"
	"dcm/cmd/dcm-kubernetes/internal/sequence"
	"dcm/cmd/dcm-kubernetes/internal/vendor"
)

// agent is the real program for one node.
type agent struct {
	w       *world
	program string
	args    []string
	*process
}

func (w *world) program() string {
	w.t.Helper()
	program := filepath.Join(w.t.TempDir(), "dcm-kubernetes")
	cmd := exec.Command("go", "build", "-o", program, "dcm/cmd/dcm-kubernetes")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// agent starts an agent with shorter intervals than the defaults.
func (w *world) agent(program, node, socket string, more ...string) *agent {
	w.t.Helper()
	return w.plainAgent(program, node, socket, append([]string{"-look=200ms", "-wait=1s"}, more...)...)
}

func (w *world) plainAgent(program, node, socket string, more ...string) *agent {
	w.t.Helper()
	dir := w.t.TempDir()
	write(w.t, filepath.Join(dir, "token"), w.token[node])
	a := &agent{w: w, program: program, args: append([]string{"-node=" + node, "-namespace=dcm", "-pod=agent-" + node, "-server=" + w.url,
		"-token=" + filepath.Join(dir, "token"), "-ca=" + filepath.Join(w.dir, "certs", "apiserver.crt"), "-socket=" + socket,
		"-config=" + filepath.Join(w.dir, "config"), "-verbose"}, more...)}
	a.start()
	return a
}

func (a *agent) start() { a.process = begin(a.w.t, a.w.t.TempDir(), a.program, a.args...) }

func TestReal(t *testing.T) {
	w := newWorld(t)
	three := []string{"n1", "n2", "n3"}
	w.plugin()
	for _, name := range three {
		w.add(name)
	}
	w.play()
	program := w.program()
	w.until("the plugin", three, func(o object) bool { return sub(o, "status", "allocatable")["amd.com/gpu"] == "8" })

	t.Run("access of an agent", func(t *testing.T) { w.bounds(t) })
	t.Run("policy", func(t *testing.T) { w.policy(t) })

	w.budget(1)
	agents := make(map[string]*agent)
	for _, name := range three {
		w.job("job-"+name, name)
		agents[name] = w.agent(program, name, w.socket(name), "-drain=10s", "-retry=5s")
	}
	t.Run("one node at a time", func(t *testing.T) {
		begun := time.Now()
		for _, name := range three {
			w.label(name, "small")
		}
		w.until("success", three, applied("small", "success"))
		w.free()
		t.Logf("three nodes in %s, at most %d concurrently", time.Since(begun).Round(time.Millisecond), w.most)
		for _, name := range three {
			if wrong := w.wrong(name); wrong != nil {
				t.Errorf("%s: %q", name, wrong)
			}
		}
		if w.most != 1 {
			t.Errorf("%d nodes concurrently", w.most)
		}
	})
	t.Run("drain times out", func(t *testing.T) {
		const budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
		w.job("held", "n1")
		w.do(http.MethodPost, budgets, object{"metadata": object{"name": "b"}, "spec": object{"minAvailable": 1, "selector": object{"matchLabels": object{"app": "job"}}}})
		w.label("n1", "whole")
		w.until("failure", three[:1], applied("whole", "failure"))
		if code, _, _ := w.as("root", http.MethodGet, pods+"/held", "", nil); code != 200 {
			t.Errorf("the pod was evicted: %d", code)
		}
		w.until("the reason", three[:1], func(o object) bool {
			return strings.Contains(condition(o), "default/held (its disruption budget forbids it for now)")
		})
		if wrong := w.wrong("n1"); wrong != nil && !strings.HasPrefix(fmt.Sprint(wrong), "[allocatable") {
			t.Errorf("n1: %q", wrong)
		}
		w.do(http.MethodDelete, budgets+"/b", nil)
		w.until("success", three[:1], applied("whole", "success"))
		w.free()
		if wrong := w.wrong("n1"); wrong != nil {
			t.Errorf("n1: %q", wrong)
		}
	})
	t.Run("agent killed in each phase", func(t *testing.T) {
		profile := "small"
		for _, at := range []sequence.Phase{sequence.Waiting, sequence.Draining, sequence.Applying, sequence.Refreshing, ""} {
			uses := w.dcm["n1"].Uses()
			w.job("again-"+cmp.Or(string(at), "end"), "n1")
			w.label("n1", profile)
			if at == "" {
				w.until("success", three[:1], applied(profile, "success"))
			} else {
				w.until(string(at), three[:1], func(o object) bool { return phase(o) == at || applied(profile, "success")(o) })
			}
			agents["n1"].kill()
			killed := phase(w.do(http.MethodGet, nodes+"/n1", nil))
			agents["n1"].start()
			w.until("success", three[:1], applied(profile, "success"))
			w.free()
			t.Logf("killed in phase %q (want %q): success; problems: %q; %d changes", killed, at, w.wrong("n1"), w.dcm["n1"].Uses()-uses)
			if wrong := w.wrong("n1"); wrong != nil || w.dcm["n1"].Uses() != uses+1 {
				t.Errorf("%q: %q, %d changes", at, wrong, w.dcm["n1"].Uses()-uses)
			}
			profile = map[string]string{"small": "whole", "whole": "small"}[profile]
		}
	})
	t.Run("API server down", func(t *testing.T) {
		away := 60 * time.Second
		if s, err := time.ParseDuration(os.Getenv("DCM_AWAY")); err == nil {
			away = s
		}
		w.label("n2", "whole")
		w.until("a change", []string{"n2"}, func(o object) bool { return phase(o) != "" && phase(o) != sequence.Waiting })
		w.outage()
		begun := time.Now()
		<-time.After(away)
		w.endOutage()
		up := time.Now()
		w.until("success", []string{"n2"}, applied("whole", "success"))
		w.free()
		t.Logf("down for %s; success %s after its start; problems: %q", up.Sub(begun).Round(time.Second), time.Since(up).Round(time.Millisecond), w.wrong("n2"))
		if wrong := w.wrong("n2"); wrong != nil {
			t.Errorf("n2: %q", wrong)
		}
	})
	t.Run("ResourceSlices of a DRA driver", func(t *testing.T) {
		n3 := []string{"n3"}
		w.do(http.MethodPatch, nodes+"/n3", object{"metadata": object{"labels": object{"dra": "true"}}})
		w.driver()
		w.do(http.MethodGet, slicesOf, nil)
		for code := 0; code != 200; code, _, _ = w.as("root", http.MethodGet, slicesOf+"/n3", "", nil) {
			select {
			case <-w.ctx.Done():
				t.Fatal("no ResourceSlices")
			case <-time.After(100 * time.Millisecond): // slices are not watched here
			}
		}
		claimed := w.claimed("n3")
		let := w.keep("driver")
		w.label("n3", "whole")
		w.until("the reason", n3, func(o object) bool {
			return strings.Contains(condition(o), "waits for the ResourceSlices to show spx_nps1=8 (found cpx_nps1=64)")
		})
		if o := w.do(http.MethodGet, nodes+"/n3", nil); sub(o, "spec")["unschedulable"] != true {
			t.Error("the node is uncordoned")
		}
		for _, name := range claimed {
			if code, _, _ := w.as("root", http.MethodGet, pods+"/"+name, "", nil); code != 404 {
				t.Errorf("the pod %s was not evicted: %d", name, code)
			}
		}
		let()
		w.until("success", n3, applied("whole", "success"))
		w.free()
		if wrong := w.wrong("n3"); wrong != nil {
			t.Errorf("n3: %q", wrong)
		}
	})
	t.Run("cost of an idle agent", func(t *testing.T) {
		a := agents["n2"]
		cpu, rss := a.cost()
		sleeps, asked := a.sleeps(), w.metric("apiserver_request_total")
		<-time.After(time.Minute)
		after, _ := a.cost()
		t.Logf("RSS %d MB, %s of CPU since its start; in a minute at rest %s, its threads slept %d times, and %.0f requests of all to the API server",
			rss, cpu, after-cpu, a.sleeps()-sleeps, w.metric("apiserver_request_total")-asked)
		if rss >= 30 || after-cpu > 100*time.Millisecond {
			t.Errorf("RSS %d MB, %s of CPU in a minute", rss, after-cpu)
		}
	})
}

// bounds tries requests that an agent of n1 must not make.
func (w *world) bounds(t *testing.T) {
	w.job("theirs", "n2")
	w.do(http.MethodPost, leases, object{"metadata": object{"name": "dcm-budget-try"}})
	lease := w.do(http.MethodGet, leases+"/dcm-budget-try", nil)
	hold := func(who string) object {
		lease["spec"] = object{"holderIdentity": who}
		return lease
	}
	unbound := w.do(http.MethodPost, "/api/v1/namespaces/dcm/serviceaccounts/dcm-kubernetes/token", object{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": object{}})
	state := object{"metadata": object{"labels": object{vendor.AMD.State: "failure"}}}
	n1 := w.token["n1"]
	w.awaitPolicy("n1")
	for what, try := range map[string]struct {
		token, method, path, kind string
		body                      any
		want                      int
	}{
		"its node":             {n1, http.MethodPatch, nodes + "/n1", merge, object{"metadata": object{"annotations": object{cluster.Last: "{}"}}}, 200},
		"another node":         {n1, http.MethodPatch, nodes + "/n2", merge, state, 403},
		"another's status":     {n1, http.MethodPatch, nodes + "/n2/status", merge, object{"status": object{}}, 403},
		"another label":        {n1, http.MethodPatch, nodes + "/n1", merge, object{"metadata": object{"labels": object{"a": "b"}}}, 403},
		"another's pod":        {n1, http.MethodDelete, pods + "/theirs", "", nil, 403},
		"a lease for another":  {n1, http.MethodPut, leases + "/dcm-budget-try", "", hold("n2/x"), 403},
		"a new lease":          {n1, http.MethodPost, leases, "", object{"metadata": object{"name": "more"}}, 403},
		"a secret":             {n1, http.MethodGet, "/api/v1/secrets", "", nil, 403},
		"without a pod":        {fmt.Sprint(sub(unbound, "status")["token"]), http.MethodPatch, nodes + "/n1", merge, state, 403},
		"without a pod, pods":  {fmt.Sprint(sub(unbound, "status")["token"]), http.MethodDelete, pods + "/theirs", "", nil, 403},
		"an event of another":  {n1, http.MethodPost, "/apis/events.k8s.io/v1/namespaces/default/events", "", event("n2"), 403},
		"an event of a pod":    {n1, http.MethodPost, "/apis/events.k8s.io/v1/namespaces/default/events", "", podEvent("n1"), 403},
		"an event of its node": {n1, http.MethodPost, "/apis/events.k8s.io/v1/namespaces/default/events", "", event("n1"), 201},
	} {
		code, answer, err := w.as(try.token, try.method, try.path, try.kind, try.body)
		if err != nil || code != try.want {
			t.Errorf("%s: %d %v, want %d; %v", what, code, answer["message"], try.want, err)
		}
	}
	w.do(http.MethodDelete, pods+"/theirs", nil)
	w.do(http.MethodDelete, leases+"/dcm-budget-try", nil)
}

// awaitPolicy waits until the policy limits the agent of a node. It takes effect some time after its
// creation.
func (w *world) awaitPolicy(name string) {
	w.t.Helper()
	attempt := func(n int) int { // with a new value each time: a patch that changes nothing is not refused
		code, _, _ := w.as(w.token[name], http.MethodPatch, nodes+"/"+name, merge, object{"metadata": object{"labels": object{"tried": fmt.Sprint(n)}}})
		return code
	}
	for n := 0; attempt(n) != 403; n++ {
		select {
		case <-w.ctx.Done():
			policy := w.do(http.MethodGet, "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/dcm-kubernetes", nil)
			w.t.Fatalf("the policy has no effect: %v", policy["status"])
		case <-time.After(100 * time.Millisecond): // no event reports that
		}
	}
	w.mark(name, "tried", nil)
}

func event(node string) object {
	return object{"metadata": object{"name": "try." + node, "namespace": "default"}, "eventTime": time.Now().UTC().Format("2006-01-02T15:04:05.000000Z07:00"),
		"regarding": object{"apiVersion": "v1", "kind": "Node", "name": node}, "reason": "Try", "action": "Try", "type": "Normal",
		"reportingController": "example.org/try", "reportingInstance": node}
}

// podEvent is an event about a pod with the name of a node.
func podEvent(node string) object {
	e := event(node)
	e["regarding"] = object{"apiVersion": "v1", "kind": "Pod", "namespace": "kube-system", "name": node}
	return e
}

func condition(node object) string {
	all, _ := sub(node, "status")["conditions"].([]any)
	for _, c := range all {
		if c := c.(object); c["type"] == cluster.ConditionType {
			return fmt.Sprintf("%v %v: %v", c["status"], c["reason"], c["message"])
		}
	}
	return ""
}

// A rollout on many nodes, of which every second one has GPUs of NVIDIA. All agents run in this process,
// each with its own connections.
func TestMany(t *testing.T) {
	w := newWorld(t)
	count, budget := number("DCM_NODES", 1000), number("DCM_BUDGET", 50)
	w.play()
	w.plugin()
	w.operands()
	var names, amd, nvidia []string
	for i := range count {
		name := fmt.Sprintf("node-%04d", i)
		if names = append(names, name); i%2 == 0 {
			amd = append(amd, name)
		} else {
			nvidia = append(nvidia, name)
		}
	}
	all(amd, w.add)
	all(nvidia, w.addH100)
	w.budget(budget)
	w.until("the plugin", amd, func(o object) bool { return sub(o, "status", "allocatable")["amd.com/gpu"] == "8" })
	w.until("the plugin", nvidia, func(o object) bool { return sub(o, "status", "allocatable")["nvidia.com/gpu"] == "8" })
	t.Logf("%d nodes are ready", count)
	var stops []func()
	for _, name := range names {
		stops = append(stops, w.inside(name))
	}
	defer func() {
		for _, stop := range stops {
			stop()
		}
	}()
	all(amd, func(name string) { w.job("job-"+name, name) })
	all(nvidia, func(name string) { w.jobOn("job-"+name, name, "nvidia.com/gpu") })
	cpu, _ := w.server.cost()
	asked := w.metric("apiserver_request_total")
	begun := time.Now()
	all(amd, func(name string) { w.label(name, "small") })
	all(nvidia, func(name string) { w.choose(name, "all-balanced") })
	t.Logf("labelled after %s", time.Since(begun).Round(time.Second))
	w.until("success", amd, applied("small", "success"))
	w.until("success", nvidia, chosen("all-balanced", "success"))
	took := time.Since(begun)
	after, rss := w.server.cost()
	requests := w.metric("apiserver_request_total") - asked
	w.free()
	t.Logf("%d nodes with a budget of %d: %s; at most %d at a time; the API server took %s of CPU (%s a node), %d MB; %.0f requests (%.1f a node, those of what is played too)",
		count, budget, took.Round(time.Second), w.most, after-cpu, ((after - cpu) / time.Duration(count)).Round(time.Millisecond), rss, requests, requests/float64(count))
	if w.most > budget {
		t.Errorf("%d at a time", w.most)
	}
	for _, name := range names {
		if wrong := w.wrong(name); wrong != nil {
			t.Errorf("%s: %q", name, wrong)
		}
	}
}

// inside runs an agent in this process.
func (w *world) inside(name string) (stop func()) {
	config := &rest.Config{Host: w.url, BearerToken: w.token[name], TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: 20, Burst: 40,
		// An own transport prevents shared connections.
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		}}
	client, err := cluster.New(config, "dcm-budget")
	if err != nil {
		w.t.Fatal(err)
	}
	b := &bridge.Bridge{
		Node: name, Self: cluster.Self{Namespace: "dcm", Name: "agent-" + name}, Cluster: client, Host: w.dcm[name],
		Config: once{desired.Dir(filepath.Join(w.dir, "config")).Read(vendor.AMD)}, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Times: sequence.Times{Drain: time.Hour, Refresh: time.Hour, Retry: time.Hour, Look: 2 * time.Second, Budget: 15 * time.Second, Reread: time.Hour, Lease: time.Minute},
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := b.Run(ctx); err != nil {
			w.t.Errorf("%s: %v", name, err)
		}
	}()
	return func() { cancel(); <-done }
}

// once is a ConfigMap that never changes, since one machine has no thousand inotify instances.
type once struct{ config sequence.Config }

func (o once) Read(*vendor.Vendor) sequence.Config { return o.config }

func (o once) Watch(ctx context.Context, _ func()) error {
	<-ctx.Done()
	return nil
}

func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}
