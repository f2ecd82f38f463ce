package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"

	"dcm/internal/testkit/e2e"
)

// node is the container of the measurements.
type node struct {
	*e2e.Container
	short bool
	only  *regexp.Regexp // the names of the measurements to make

	programs programs

	isFrozen bool // freeze has succeeded
}

// measure makes all measurements. The idle daemon is last, after it has worked.
func (n *node) measure(ctx context.Context, t *table) error {
	for _, m := range []struct {
		name string
		make func(context.Context, *table) error
	}{
		{"simulated", n.simulated}, {"frozen", n.frozen}, {"restarts", n.restarts}, {"leases", n.leases}, {"makes", n.makes},
		{"processor", n.processor}, {"messages", n.messages}, {"rest", n.rest}, {"sizes", n.sizes},
	} {
		if !n.only.MatchString(m.name) {
			continue
		}
		if err := m.make(ctx, t); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}

// rounds returns the number of repetitions. A trial makes few.
func (n *node) rounds(full int) int {
	if n.short {
		return 3
	}
	return full
}

// say prints the current measurement on standard error.
func (n *node) say(what string) { fmt.Fprintln(os.Stderr, "bench: "+what) }

// run runs a shell command that must succeed and returns its output.
func (n *node) run(ctx context.Context, script string, args ...string) (string, error) {
	r, err := n.Run(ctx, append([]string{"sh", "-c", script, "sh"}, args...)...)
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("%s %q: exit status %d: %s%s", script, args, r.Code, r.Stdout, r.Stderr)
	}
	return r.Stdout, err
}

// probe runs the program probe and decodes its output.
func probe[T any](ctx context.Context, n *node, args ...string) (v T, err error) {
	r, err := n.Run(ctx, append([]string{"/usr/local/bin/probe"}, args...)...)
	if err != nil {
		return v, err
	}
	if r.Code != 0 {
		return v, fmt.Errorf("probe %q: %s", args, r.Stderr)
	}
	return v, json.Unmarshal([]byte(r.Stdout), &v)
}

// programs are the files of the measurements.
type programs struct {
	dir string // of the commands agent, dcm-sim, probe and trivial
	deb string // the package
}

// prepare builds the programs. The caller removes their directory.
func prepare(ctx context.Context, dist string) (p programs, err error) {
	packages, err := filepath.Glob(filepath.Join(dist, "*_"+runtime.GOARCH+".deb"))
	if err != nil || len(packages) != 1 {
		return p, fmt.Errorf("%s holds %d packages for this host, want one: %q", dist, len(packages), packages)
	}
	p.deb = packages[0]
	if p.dir, err = os.MkdirTemp("", "dcm-bench-"); err != nil {
		return p, err
	}
	return p, build(ctx, p.dir)
}

// boot boots a node with AMD GPUs and the package.
func boot(ctx context.Context, p programs) (*e2e.Container, error) {
	seed, err := seed("mi300x-8", p)
	if err != nil {
		return nil, err
	}
	return bootWith(ctx, p, seed, install)
}

// bootWith boots a node and runs a shell script on it.
func bootWith(ctx context.Context, p programs, seed e2e.Seed, install string) (*e2e.Container, error) {
	root, err := e2e.Trixie().Directory(ctx, os.Stderr)
	if err != nil {
		return nil, err
	}
	c, err := e2e.Boot(ctx, root, filepath.Join(p.dir, "agent"), seed)
	if err != nil {
		return nil, err
	}
	n := &node{Container: c}
	if _, err := n.run(ctx, install); err != nil {
		return nil, fmt.Errorf("%w %v", err, c.Close())
	}
	return c, nil
}

func build(ctx context.Context, dir string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", dir,
		"dcm/internal/testkit/e2e/agent", "dcm/cmd/dcm-sim", "dcm/internal/testkit/e2e/bench/probe", "dcm/internal/testkit/e2e/bench/trivial")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("cannot build the probes: %w", err)
	}
	return nil
}

// seed returns the tests' node without its clients and with the probes.
func seed(kind string, p programs) (e2e.Seed, error) {
	s, err := e2e.Node(kind, filepath.Join(p.dir, "dcm-sim"))
	if err != nil {
		return nil, err
	}
	for _, unit := range []string{"amd-metrics-exporter", "gpuagent", "dashboard"} {
		delete(s, "/etc/systemd/system/multi-user.target.wants/"+unit+".service")
	}
	for path, file := range map[string]string{
		"/root/dcm.deb":          p.deb,
		"/usr/local/bin/probe":   filepath.Join(p.dir, "probe"),
		"/usr/local/bin/trivial": filepath.Join(p.dir, "trivial"),
	} {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		s[path] = e2e.File{Content: content, Mode: 0o755}
	}
	for path, unit := range units {
		s["/etc/systemd/system/"+path] = e2e.File{Content: []byte(unit)}
	}
	return s, nil
}

// install installs the package, and adds copies of dcm's units with another program. A
// difference to them is due to the program.
const install = `set -e
dpkg --install /root/dcm.deb
cd /usr/lib/systemd/system
sed 's|^ExecStart=.*|ExecStart=/bin/true|' dcm-apply.service >/etc/systemd/system/boxed.service
sed 's|^ExecStart=.*|ExecStart=/usr/local/bin/trivial|; /^WatchdogSec=/d' dcm.service >/etc/systemd/system/boxed-trivial.service
systemctl daemon-reload`

// units are the units for comparison with dcm's.
var units = map[string]string{
	"bare.service": `[Unit]
Description=What a transaction costs without any work in it
StartLimitIntervalSec=0
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/true
`,
	"trivial.service": `[Unit]
Description=The least service that says that it is ready
StartLimitIntervalSec=0
[Service]
Type=notify
ExecStart=/usr/local/bin/trivial
`,
}
