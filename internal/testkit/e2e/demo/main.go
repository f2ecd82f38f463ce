// Command demo shows the use of dcm in a container with systemd, the package and a simulated node of eight
// MI300X: a change, a job in the way of another one, a run that is killed, two leases, and a reboot. On a
// terminal the commands have colours and redraw. It exits with 1 if a check fails. With -keep it then opens a shell on the node, with -shell it only opens the shell.
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
	"time"

	"golang.org/x/term"

	"dcm/internal/exitcode"
	"dcm/internal/testkit/e2e"
)

func main() {
	dist := flag.String("dist", "dist/demo", "`DIR` with the package")
	keep := flag.Bool("keep", false, "open a shell on the node after the demo")
	only := flag.Bool("shell", false, "open a shell on the node without the demo")
	kind := flag.String("kind", "mi300x-8", "with -shell: the `KIND` of the node, see dcm-sim kinds")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if *kind != "mi300x-8" && !*only {
		fmt.Fprintln(os.Stderr, "demo: -kind requires -shell, since the demo is of a node of mi300x-8")
		os.Exit(exitcode.Usage)
	}
	err := run(ctx, *dist, *kind, *keep, *only)
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

func run(ctx context.Context, dist, kind string, keep, only bool) (err error) {
	if err := e2e.Missing(); err != nil {
		return err
	}
	if _, err := e2e.Sweep(os.TempDir()); err != nil {
		return err
	}
	recipe := e2e.Trixie()
	if only || keep {
		recipe = e2e.Shell()
	}
	node, err := boot(ctx, recipe, dist, kind)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	s := &show{node: node, w: os.Stdout, stopped: func() bool { return ctx.Err() != nil }}
	if fd := int(os.Stdout.Fd()); term.IsTerminal(fd) && os.Getenv("TERM") != "dumb" {
		s.terminal, s.columns = true, 80
		if width, _, err := term.GetSize(fd); err == nil && width > 0 {
			s.columns = width
		}
	}
	began := time.Now()
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
		fmt.Printf("\n%s in %.0f s. Now on this host: sudo ./install.sh\n", s.paint(green, "All checks passed"), time.Since(began).Seconds())
		if !keep {
			fmt.Println("With --keep the node stays, and dcm-sim fault makes its GPUs fail.")
		}
	}
	if keep || only {
		return shell(ctx, node, kind)
	}
	return nil
}

// train is a job that has the GPUs open. It writes to trainLog its PID, and how many partitions it can open.
const train = `#!/bin/sh
[ -x /usr/local/lib/train ] || install /usr/bin/sleep /usr/local/lib/train
exec 3</dev/kfd
mine=0 all=0
for node in /dev/dri/renderD*; do
	all=$((all + 1))
	case $( (exec 4<"$node") 2>&1) in *"not permitted"*) ;; *) mine=$((mine + 1)) ;; esac
done
echo "job $1 has PID $$ and can open $mine of $all partitions" >>` + trainLog + `
exec /usr/local/lib/train infinity
`

const trainLog = "/run/train.log"

// boot builds the programs of the demo and boots a node of that kind with the package.
func boot(ctx context.Context, recipe e2e.Recipe, dist, kind string) (*e2e.Container, error) {
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
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", bin, "./internal/testkit/e2e/agent", "./cmd/dcm-sim")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := p.run("compiling the simulator", progressInterval, build.Run); err != nil {
		return nil, fmt.Errorf("cannot build the simulator: %w", err)
	}
	var root string
	err = p.run("preparing the container's root", progressInterval, func() (err error) {
		root, err = recipe.Directory(ctx, os.Stderr)
		return err
	})
	if err != nil {
		return nil, err
	}
	seed, err := e2e.Node(kind, filepath.Join(bin, "dcm-sim"))
	if err != nil {
		return nil, err
	}
	if err := withNVIDIA(ctx, seed, kind, bin); err != nil {
		return nil, err
	}
	seed["/root/"+filepath.Base(packages[0])] = e2e.File{Content: deb}
	seed["/etc/e2e/kind"] = e2e.File{Content: []byte("KIND=" + kind + "\nSIM_OPTIONS=--mig=" + e2e.MIGState + " --reload-latency=" + reloadDelay.String() + "\n")}
	seed.CharacterDevices()
	delete(seed, "/etc/systemd/system/multi-user.target.wants/dashboard.service") // it follows a client and is not explained here
	seed["/usr/local/bin/train"] = e2e.File{Content: []byte(train), Mode: 0o755}
	seed["/etc/systemd/system/training.service"] = e2e.File{Content: []byte("[Service]\nExecStart=/usr/local/bin/train\n"), Mode: 0o644}
	var node *e2e.Container
	err = p.run("booting the node", progressInterval, func() (err error) {
		node, err = e2e.Boot(ctx, root, filepath.Join(bin, "agent"), seed)
		return err
	})
	return node, err
}
