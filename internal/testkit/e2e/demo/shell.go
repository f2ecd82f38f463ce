package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"

	"dcm/internal/gpu/nvml/standin"
	"dcm/internal/testkit/e2e"
	"dcm/internal/testkit/sim"
)

const hint = `
The simulated node is running, and this is a shell in it:
  dcm profiles                                   the profiles that fit; dcm use applies one; also dcm status, dcm top
  dcm-sim fault --gpu 0000:05:00.0 --vanish      make a GPU fail; dcm-sim fault --help has more
  exit                                           leave (or Ctrl-D); the node is removed

`

// listClients edits the installed file, in which other tables have an example of units too.
const listClients = `sed -i '0,/^#units = /s/^#units = .*/units = ["amd-metrics-exporter", "gpuagent"]/'`

// install installs the package on the node and lists the clients, without the rest of the
// demo.
func install(ctx context.Context, s *show) {
	s.title("A simulated node")
	s.quiet(ctx, "dpkg --install /root/dcm_*.deb")
	s.quiet(ctx, listClients+" /etc/dcm/dcm.toml")
	s.live(ctx, "dcm status", 0)
}

// withNVIDIA adds NVIDIA's library if a node of that kind needs it. It is compiled in dir.
func withNVIDIA(ctx context.Context, seed e2e.Seed, kind, dir string) error {
	node, err := sim.LookupKind(kind)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(node.Boards, func(b sim.Board) bool { return b.Chip.NVIDIA() }) {
		return nil
	}
	lib, err := standin.Build(ctx, dir)
	if err != nil {
		return err
	}
	return seed.NVIDIA(lib)
}

// shell opens a shell on the node, which is a unit there, and returns when it exits. Its
// exit status is no error.
func shell(node *e2e.Container) error {
	fmt.Print(hint)
	// The terminal's signals are the shell's.
	signal.Ignore(os.Interrupt, syscall.SIGQUIT)
	cmd, err := inside(context.Background(), node, []string{"--pty", "--pipe", "--background="}, "/bin/bash", "-l")
	if err != nil {
		return err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	var status *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &status) {
		return fmt.Errorf("cannot open a shell on the node: %w", err)
	}
	return nil
}

// inside returns a command that runs a program as a unit of the node.
func inside(ctx context.Context, node *e2e.Container, options []string, program ...string) (*exec.Cmd, error) {
	leader, err := node.Leader()
	if err != nil {
		return nil, err
	}
	args := []string{"--target=" + leader, "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup",
		"systemd-run", "--quiet", "--collect", "--wait", "--working-directory=/root", "--setenv=HOME=/root", "--setenv=TERM=" + os.Getenv("TERM"),
		"--setenv=NO_COLOR=" + os.Getenv("NO_COLOR"), "--service-type=exec"}
	return exec.CommandContext(ctx, "nsenter", slices.Concat(args, options, []string{"--"}, program)...), nil
}
