package vm_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dcm/internal/ample"
	"dcm/internal/e2e"
	"dcm/internal/e2e/remote"
	"dcm/internal/e2e/vm"
)

// waitLimit is the limit of one command or boot in a guest, which a host under load
// extends (see package ample). Only a test that fails reaches it.
const waitLimit = 2 * time.Minute

// machines is how many run at a time, by `make test-vm` on two processors.
const machines = 2

// TestVM runs dcm on a real kernel. DCM_VM names the guests, separated by commas.
func TestVM(t *testing.T) {
	names := os.Getenv("DCM_VM")
	if names == "" {
		t.Skip("virtual machines run with DCM_VM=trixie, which make test-vm sets")
	}
	if err := vm.Missing(); err != nil {
		t.Fatal(err)
	}
	p := product(t)
	turns := make(chan struct{}, machines)
	for name := range strings.SplitSeq(names, ",") {
		guest, ok := vm.Guests()[name]
		if !ok {
			t.Fatalf("DCM_VM names %q, which is no guest", name)
		}
		t.Run(name, func(t *testing.T) {
			ready := prepare(t, guest, p)
			for _, tt := range scenarios() {
				t.Run(tt.name, func(t *testing.T) {
					t.Parallel()
					turns <- struct{}{}
					defer func() { <-turns }()
					began := time.Now()
					tt.run(restore(t, ready))
					t.Logf("%s: %.1f s", tt.name, time.Since(began).Seconds())
				})
			}
		})
	}
}

type scenario struct {
	name string
	run  func(machine)
}

func product(t *testing.T) vm.Product {
	t.Helper()
	dir := t.TempDir()
	command(t, "make", "--directory=../../..", "packages", "ARCHES=amd64", "PACKAGERS=deb", "DIST="+dir)
	files, err := filepath.Glob(filepath.Join(dir, "dcm_*.deb"))
	if err != nil || len(files) != 1 {
		t.Fatalf("packages are %q, %v; want one", files, err)
	}
	agent := filepath.Join(dir, "agent")
	command(t, "go", "build", "-trimpath", "-o", agent, "dcm/internal/e2e/agent")
	return vm.Product{Package: files[0], Agent: agent, Seed: seed()}
}

func command(t *testing.T, argv ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, text)
	}
}

// seed has two services that use the GPUs, and one that requires one of them.
func seed() e2e.Seed {
	client := func(name string) string {
		return "[Unit]\nDescription=GPU client " + name + "\n[Service]\nExecStart=/usr/local/bin/gpu-client\nRestart=on-failure\nRestartSec=1\n[Install]\nWantedBy=multi-user.target\n"
	}
	s := e2e.Seed{
		"/usr/local/bin/gpu-client": {Mode: 0o755, Content: []byte("#!/bin/sh\nexec 3</dev/kfd\nexec sleep infinity\n")},
		"/etc/systemd/system/dashboard.service": {Content: []byte(
			"[Unit]\nRequires=gpuagent.service\nAfter=gpuagent.service\n[Service]\nExecStart=sleep infinity\n")},
		"/etc/dcm/dcm.toml": {Content: []byte("[clients]\nunits = [\"amd-metrics-exporter\", \"gpuagent\"]\n")},
	}
	for _, name := range []string{"amd-metrics-exporter", "gpuagent"} {
		s["/etc/systemd/system/"+name+".service"] = e2e.File{Content: []byte(client(name))}
	}
	for _, name := range []string{"amd-metrics-exporter", "gpuagent", "dashboard"} {
		s["/etc/systemd/system/multi-user.target.wants/"+name+".service"] = e2e.File{Link: "../" + name + ".service"}
	}
	return s
}

// images are a guest's booted machines, by their number of GPUs.
type images struct {
	disk vm.Disk
	two  *vm.Image
}

func prepare(t *testing.T, g vm.Guest, p vm.Product) images {
	t.Helper()
	ctx, cancel := ample.Context(t.Context(), 10*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp(e2e.CacheDir(), "vm-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	disk, err := vm.NewDisk(ctx, g, p, dir, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	two, err := disk.Save(ctx, vm.Options{GPUs: 2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return images{disk, two}
}

// machine is a virtual machine in a test: what fails in it fails the test.
type machine struct {
	*vm.Machine
	t      *testing.T
	images images
}

func restore(t *testing.T, i images) machine {
	t.Helper()
	v, err := i.two.Restore()
	if err != nil {
		t.Fatal(err)
	}
	return watched(t, v, i)
}

func watched(t *testing.T, v *vm.Machine, i images) machine {
	m := machine{v, t, i}
	t.Cleanup(func() {
		if t.Failed() {
			ctx, cancel := ample.Context(context.Background(), waitLimit)
			defer cancel()
			r, err := v.Run(ctx, "sh", "-c", "dcm status; dcm holders; systemctl --failed; journalctl -b -o short-monotonic -n 200")
			t.Logf("%v\n%s%s\n%s", err, r.Stdout, r.Stderr, v.Console())
		}
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// try runs a shell command, whatever its exit status.
func (m machine) try(script string, args ...string) remote.Result {
	m.t.Helper()
	ctx, cancel := ample.Context(m.t.Context(), waitLimit)
	defer cancel()
	r, err := m.Run(ctx, append([]string{"sh", "-c", script, "sh"}, args...)...)
	if err != nil {
		m.t.Fatalf("%v\n%s%s", err, r.Stdout, r.Stderr)
	}
	return r
}

// run runs a shell command that must succeed and returns its trimmed output.
func (m machine) run(script string, args ...string) string {
	m.t.Helper()
	r := m.try(script, args...)
	if r.Code != 0 {
		m.t.Fatalf("%s %q: exit status %d\n%s%s", script, args, r.Code, r.Stdout, r.Stderr)
	}
	return strings.TrimSpace(r.Stdout)
}

func (m machine) expect(script, want string) {
	m.t.Helper()
	if got := m.run(script); got != want {
		m.t.Errorf("%s: found %q, want %q", script, got, want)
	}
}

func (m machine) must(f func(context.Context) error) {
	m.t.Helper()
	ctx, cancel := ample.Context(m.t.Context(), waitLimit)
	defer cancel()
	if err := f(ctx); err != nil {
		m.t.Fatal(err)
	}
}
