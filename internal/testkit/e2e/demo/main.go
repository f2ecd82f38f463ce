// Command demo shows the use of dcm in a container with systemd, the package and a simulated node of eight
// MI300X. It prints each command with its output, and a picture of the node before and after. It exits with
// 1 if a check fails. With -keep it then opens a shell on the node, with -shell it only opens the shell.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"

	"dcm/internal/testkit/e2e"
)

func main() {
	dist := flag.String("dist", "dist", "`DIR` with the packages")
	keep := flag.Bool("keep", false, "open a shell on the node after the demo")
	only := flag.Bool("shell", false, "open a shell on the node without the demo")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	err := run(ctx, *dist, *keep, *only)
	if ctx.Err() != nil {
		// The interrupt is the cause of the error.
		fmt.Fprintln(os.Stderr, "\ndemo: stopped, and the container is gone")
		os.Exit(130)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dist string, keep, only bool) (err error) {
	if err := e2e.Missing(); err != nil {
		return err
	}
	if _, err := e2e.Sweep(os.TempDir()); err != nil {
		return err
	}
	node, err := boot(ctx, dist)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	s := &show{node: node, w: os.Stdout, stopped: func() bool { return ctx.Err() != nil }}
	if only {
		install(ctx, s)
	} else {
		walk(ctx, s)
	}
	if s.stopped() {
		return ctx.Err()
	}
	if s.wrong > 0 {
		node.Diagnose(ctx, os.Stderr)
		return fmt.Errorf("%d checks failed", s.wrong)
	}
	if !only {
		fmt.Println("\nAll checks passed.")
	}
	if keep || only {
		return shell(node)
	}
	return nil
}

// boot builds the programs of the demo and boots the node with the package.
func boot(ctx context.Context, dist string) (*e2e.Container, error) {
	packages, err := filepath.Glob(filepath.Join(dist, "*_"+runtime.GOARCH+".deb"))
	if err != nil || len(packages) != 1 {
		return nil, fmt.Errorf("%s holds %d packages for this host, want one: %q", dist, len(packages), packages)
	}
	deb, err := os.ReadFile(packages[0])
	if err != nil {
		return nil, err
	}
	bin, err := os.MkdirTemp("", "dcm-demo-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(bin)
	p := &progress{w: os.Stdout, total: 3}
	build := exec.CommandContext(ctx, "go", "build", "-o", bin, "./internal/testkit/e2e/agent", "./cmd/dcm-sim")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := p.run("compiling the simulator", progressInterval, build.Run); err != nil {
		return nil, fmt.Errorf("cannot build the simulator: %w", err)
	}
	var root string
	err = p.run("preparing the container's root", progressInterval, func() (err error) {
		root, err = e2e.Trixie().Directory(ctx, os.Stderr)
		return err
	})
	if err != nil {
		return nil, err
	}
	seed, err := e2e.Node("mi300x-8", filepath.Join(bin, "dcm-sim"))
	if err != nil {
		return nil, err
	}
	seed["/root/"+filepath.Base(packages[0])] = e2e.File{Content: deb}
	seed["/root/config.json"] = e2e.File{Content: []byte(e2e.Kubernetes())}
	var node *e2e.Container
	err = p.run("booting the node", progressInterval, func() (err error) {
		node, err = e2e.Boot(ctx, root, filepath.Join(bin, "agent"), seed)
		return err
	})
	return node, err
}
