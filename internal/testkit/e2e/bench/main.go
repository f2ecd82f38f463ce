// Command bench measures the cost of dcm and the minimum cost of the same work in one container, and prints
// a table. Its exit status does not depend on the values, since they are not reliable on a busy machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"

	"dcm/internal/testkit/e2e"
)

// limit is the time limit of all measurements. The first run also creates the root file system.
const limit = 15 * time.Minute

func main() {
	dist := flag.String("dist", "dist", "`DIR` with the packages")
	short := flag.Bool("short", false, "few rounds, for trying the measurements themselves")
	only := flag.String("run", "", "make only the measurements whose name matches `REGEXP`: simulated, frozen, restarts, leases, makes, processor, messages, rest, sizes")
	flag.Parse()
	names, err := regexp.Compile(*only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench: -run:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, limit)
	err = run(ctx, *dist, *short, names)
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dist string, short bool, only *regexp.Regexp) (err error) {
	if err := e2e.Missing(); err != nil {
		return err
	}
	p, err := prepare(ctx, dist)
	defer os.RemoveAll(p.dir)
	if err != nil {
		return err
	}
	container, err := boot(ctx, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, container.Close()) }()
	n := &node{Container: container, short: short, only: only, programs: p}
	var t table
	if err := n.measure(ctx, &t); err != nil {
		n.Diagnose(ctx, os.Stderr)
		return err
	}
	return t.print(os.Stdout)
}
