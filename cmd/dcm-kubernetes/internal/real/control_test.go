package real_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// object is an object of the API in the form that encoding/json returns.
type object = map[string]any

// control is a control plane on the loopback device.
type control struct {
	t      *testing.T
	dir    string
	url    string
	http   *http.Client
	server *process
	args   []string

	controllers *process // kube-controller-manager
	names       []string // of its controllers
}

// process is a process that the test started.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// begin starts a program. Its output goes to a file, which is logged if the test fails.
func begin(t *testing.T, dir, program string, args ...string) *process {
	t.Helper()
	return beginIn(t, dir, nil, program, args...)
}

// beginIn is begin with additional environment variables.
func beginIn(t *testing.T, dir string, environment []string, program string, args ...string) *process {
	t.Helper()
	name := filepath.Base(program)
	log, err := os.OpenFile(filepath.Join(dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p := &process{cmd: exec.Command(program, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Dir = log, log, dir
	p.cmd.Env = append(os.Environ(), environment...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		p.cmd.Wait()
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("last output of %s:\n%s", name, text[max(0, len(text)-3000):])
		}
	})
	return p
}

func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.done
}

// cost returns the CPU time and the memory that a process has used.
func (p *process) cost() (cpu time.Duration, rss int) {
	pid := p.cmd.Process.Pid
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	for _, i := range []int{11, 12} {
		ticks, _ := strconv.Atoi(fields[i])
		cpu += time.Duration(ticks) * 10 * time.Millisecond
	}
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(status)) {
		if n, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			rss, _ = strconv.Atoi(strings.Fields(n)[0])
		}
	}
	return cpu, rss / 1024
}

// sleeps returns the number of voluntary context switches of a process. One wake-up of a Go program
// causes about seventy, since the runtime's monitor sleeps in short steps.
func (p *process) sleeps() (n int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", p.cmd.Process.Pid))
	for _, f := range files {
		text, _ := os.ReadFile(f)
		for line := range strings.Lines(string(text)) {
			if count, ok := strings.CutPrefix(line, "voluntary_ctxt_switches:"); ok {
				one, _ := strconv.Atoi(strings.TrimSpace(count))
				n += one
			}
		}
	}
	return n
}

// ports returns free ports.
func ports(t *testing.T, n int) []string {
	t.Helper()
	var out []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		out = append(out, port)
	}
	return out
}

func keys(t *testing.T, dir string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	write(t, filepath.Join(dir, "sa.key"), string(text))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// extra is what a control plane has in addition to the defaults.
type extra struct {
	controllers []string
	server      []string // options of the API server
}

// newControl starts etcd, the API server and the controllers.
func newControl(t *testing.T, more extra) *control {
	t.Helper()
	programs, dir := made(t, controlPlane...), t.TempDir()
	port := ports(t, 3)
	keys(t, dir)
	write(t, filepath.Join(dir, "tokens"), "root,admin,admin,system:masters\n")
	c := &control{t: t, dir: dir, url: "https://127.0.0.1:" + port[2], http: &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 64}}}
	store := "http://127.0.0.1:" + port[0]
	begin(t, dir, filepath.Join(programs, "etcd"), "--data-dir="+filepath.Join(dir, "etcd"), "--unsafe-no-fsync",
		"--listen-client-urls="+store, "--advertise-client-urls="+store,
		"--listen-peer-urls=http://127.0.0.1:"+port[1], "--log-level=warn")
	c.args = []string{filepath.Join(programs, "kube-apiserver"),
		"--etcd-servers=" + store, "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port=" + port[2],
		"--cert-dir=" + filepath.Join(dir, "certs"), "--endpoint-reconciler-type=none", "--token-auth-file=" + filepath.Join(dir, "tokens"),
		"--authorization-mode=Node,RBAC", "--disable-admission-plugins=ServiceAccount,Priority", "--service-cluster-ip-range=10.96.0.0/24",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + filepath.Join(dir, "sa.key"),
		"--service-account-signing-key-file=" + filepath.Join(dir, "sa.key")}
	c.args = append(c.args, more.server...)
	c.serve()
	write(t, filepath.Join(dir, "kubeconfig"), fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c",
		"clusters":[{"name":"c","cluster":{"server":%q,"insecure-skip-tls-verify":true}}],
		"users":[{"name":"c","user":{"token":"root"}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"c"}}]}`, c.url))
	c.names = append([]string{"daemonset-controller", "disruption-controller", "node-lifecycle-controller"}, more.controllers...)
	c.startControllers()
	return c
}

// startControllers starts kube-controller-manager.
func (c *control) startControllers() {
	c.t.Helper()
	c.controllers = begin(c.t, c.dir, filepath.Join(cache(), "kube-controller-manager"), "--kubeconfig="+filepath.Join(c.dir, "kubeconfig"), "--leader-elect=false",
		"--secure-port=0", "--controllers="+strings.Join(c.names, ","), "--kube-api-qps=1000", "--kube-api-burst=2000",
		"--node-monitor-grace-period=24h", "--concurrent-daemonset-syncs=4")
}

// outage ends the API server. kube-controller-manager ends too: it cannot renew its lease in a cluster.
func (c *control) outage() {
	c.server.kill()
	c.controllers.kill()
}

// endOutage starts both again.
func (c *control) endOutage() {
	c.t.Helper()
	c.serve()
	c.startControllers()
}

// serve starts the API server and waits until it is ready.
func (c *control) serve() {
	c.t.Helper()
	c.server = begin(c.t, c.dir, c.args[0], c.args[1:]...)
	for {
		select {
		case <-c.server.done:
			c.t.Fatal("the API server has ended")
		case <-c.t.Context().Done():
			c.t.Fatal("the API server is not ready")
		case <-time.After(100 * time.Millisecond): // no event reports readiness
		}
		if code, _, err := c.as("root", http.MethodGet, "/readyz", "", nil); err == nil && code == 200 {
			return
		}
	}
}

// as sends a request with a bearer token.
func (c *control) as(token, method, path, kind string, body any) (code int, answer object, err error) {
	var text []byte
	switch body := body.(type) {
	case nil:
	case []byte:
		text = body
	default:
		if text, err = json.Marshal(body); err != nil {
			return 0, nil, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(text))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if kind == "" {
		kind = "application/json"
	}
	r.Header.Set("Content-Type", kind)
	w, err := c.http.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer w.Body.Close()
	text, err = io.ReadAll(w.Body)
	if err == nil && strings.HasPrefix(w.Header.Get("Content-Type"), "application/json") {
		err = json.Unmarshal(text, &answer)
	}
	return w.StatusCode, answer, err
}

// do sends a request as cluster administrator. It fails the test on an error, unless the error is
// that the object exists, or that a pod is gone which a simulated kubelet changes.
func (c *control) do(method, path string, body any) object {
	c.t.Helper()
	kind := ""
	if method == http.MethodPatch {
		kind = "application/merge-patch+json"
	}
	for {
		code, answer, err := c.as("root", method, path, kind, body)
		switch {
		case err == nil && (code < 300 || code == 409 && method == http.MethodPost):
			return answer
		case err == nil && code == 404 && (method == http.MethodDelete || method != http.MethodGet && strings.Contains(path, "/pods/")):
			return answer
		case err == nil && code != 429 && code < 500:
			c.t.Fatalf("%s %s: %d %v", method, path, code, answer["message"])
		case c.t.Context().Err() != nil:
			c.t.Fatalf("%s %s: %v", method, path, err)
		}
		select {
		case <-c.t.Context().Done():
		case <-time.After(time.Second): // the server is down, or asks for a retry later
		}
	}
}

// metric returns the sum of a counter of the API server.
func (c *control) metric(name string) float64 {
	c.t.Helper()
	r, _ := http.NewRequestWithContext(c.t.Context(), http.MethodGet, c.url+"/metrics", nil)
	r.Header.Set("Authorization", "Bearer root")
	w, err := c.http.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer w.Body.Close()
	text, _ := io.ReadAll(w.Body)
	sum := 0.0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, name+"{") {
			n, _ := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]), 64)
			sum += n
		}
	}
	return sum
}

// watch lists the objects of one kind, then passes each change on, until ctx ends. It starts again
// if the server is down.
func (c *control) watch(ctx context.Context, path string, each func(kind string, o object)) {
	for ctx.Err() == nil {
		err := c.watchOnce(ctx, path, each)
		if err != nil && ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond): // the server is down
			}
		}
	}
}

func (c *control) watchOnce(ctx context.Context, path string, each func(kind string, o object)) error {
	code, list, err := c.as("root", http.MethodGet, path, "", nil)
	if err != nil || code != 200 {
		return errors.Join(err, fmt.Errorf("status %d", code))
	}
	items, _ := list["items"].([]any)
	for _, o := range items {
		each("ADDED", o.(object))
	}
	version := sub(list, "metadata")["resourceVersion"]
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s%s?watch=1&resourceVersion=%v", c.url, path, version), nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer root")
	w, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer w.Body.Close()
	from := json.NewDecoder(w.Body)
	for {
		var event struct {
			Type   string
			Object object
		}
		if err := from.Decode(&event); err != nil {
			return err
		}
		if event.Type == "ERROR" {
			return errors.New("the watch has ended")
		}
		each(event.Type, event.Object)
	}
}

// sub returns the object inside an object; an empty one if it is missing.
func sub(o object, keys ...string) object {
	for _, k := range keys {
		o, _ = o[k].(object)
	}
	if o == nil {
		return object{}
	}
	return o
}
