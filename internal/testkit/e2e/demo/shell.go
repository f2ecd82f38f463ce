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

// hint returns what to try on a node of that kind.
func hint(kind string) (string, error) {
	node, err := sim.LookupKind(kind)
	if err != nil {
		return "", err
	}
	gpu := node.Boards[len(node.Boards)-1].Address
	return fmt.Sprintf(`
The simulated node is running, and this is a shell in it:
  dcm profiles                                   the profiles that fit; dcm use applies one; also dcm status, dcm top
  dcm run -n 2 -- bash                           a shell with two partitions of its own: it can open no others
  dcm-sim fault --gpu %s --vanish      make a GPU fail; dcm-sim fault --help has more
  systemctl reboot                               the profile is applied again before the services start
  man dcm                                        the manual; man -k lease finds pages by words
  exit                                           leave (or Ctrl-D); the node is removed
The device nodes have no driver: a program that may open one gets "No such device or address".

`, gpu), nil
}

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

// shell opens a shell on the node until the user leaves it. After a reboot of the node it opens the next one.
func shell(ctx context.Context, node *e2e.Container, kind string) error {
	text, err := hint(kind)
	if err != nil {
		return err
	}
	fmt.Print(text)
	// The terminal's signals are the shell's.
	signal.Ignore(os.Interrupt, syscall.SIGQUIT)
	for {
		if err := login(node); err != nil {
			return err
		}
		if node.Running(ctx) {
			return nil
		}
		fmt.Println("\nThe node shuts down.")
		if err := node.Rebooted(ctx); err != nil {
			return nil // powered off
		}
		fmt.Print("The node has booted again.\n\n")
	}
}

// login runs a shell as a unit of the node, and returns when it ends. Its exit status is no error.
func login(node *e2e.Container) error {
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
