// Package testnode contains what is installed on the virtual machines of package vm: dcm's package, services
// that use the GPUs, and the files that a distribution installs with NVIDIA's driver.
package testnode

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"dcm/internal/testkit/e2e"
	"dcm/internal/testkit/e2e/vm"
)

// Product builds dcm's package and the agent in the directory. The module's root is the
// directory top.
func Product(ctx context.Context, top, dir string) (vm.Product, error) {
	fail := func(err error) (vm.Product, error) { return vm.Product{}, err }
	dist, agent := filepath.Join(dir, "dist"), filepath.Join(dir, "agent")
	for _, argv := range [][]string{
		{"make", "packages", "ARCHES=amd64", "PACKAGERS=deb", "DIST=" + dist},
		{"go", "build", "-trimpath", "-o", agent, "./internal/testkit/e2e/agent"},
	} {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Dir = top
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
		if text, err := cmd.CombinedOutput(); err != nil {
			return fail(fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, text))
		}
	}
	files, err := filepath.Glob(filepath.Join(dist, "dcm_*.deb"))
	if err != nil || len(files) != 1 {
		return fail(fmt.Errorf("packages are %q, want one (%v)", files, err))
	}
	s, err := nvidiaSeed(ctx, dir)
	if err != nil {
		return fail(err)
	}
	maps.Copy(s, seed())
	return vm.Product{Package: files[0], Agent: agent, Seed: s}, nil
}

// seed contains two services that use the GPUs, and one that requires one of them. A service stays a process
// of KFD, which the execution of another program would end.
func seed() e2e.Seed {
	client := func(name string) string {
		return "[Unit]\nDescription=GPU client " + name + "\n[Service]\nExecStart=/usr/local/bin/gpu-client\nRestart=on-failure\nRestartSec=1\n[Install]\nWantedBy=multi-user.target\n"
	}
	s := e2e.Seed{
		"/usr/local/bin/gpu-client": {Mode: 0o755, Content: []byte("#!/bin/sh\nexec 3</dev/kfd\nsleep infinity & wait\n")},
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
