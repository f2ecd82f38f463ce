// Command dcm-service is what systemd runs of dcm: its units with the name of the work
// as argument, and the generator as dcm-generator. It does what the commands of the same
// names do, with nothing in it that only people ask for: that is so much less of the
// daemon in memory, and less to start with in each run.
//
// Go's runtime does not look how many processors the unit's cgroup may have, for which it
// would read all that is mounted before each run.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"dcm/internal/app/service"
	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
	"dcm/internal/linux/journal"
)

// version is set when the program is built.
var version = "devel"

func main() {
	if filepath.Base(os.Args[0]) == "dcm-generator" {
		os.Exit(service.Generator("/", os.Args[1:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, &host.Host{Root: "/", Version: version}, os.Stderr, os.Args[1:]))
}

// run does the work that args name and returns the exit status.
func run(ctx context.Context, h *host.Host, stderr io.Writer, args []string) int {
	err := unknown
	if do := work(strings.Join(args, " ")); do != nil {
		err = do(ctx, h, stderr)
	}
	if err != nil && err.Error() != "" {
		for line := range strings.Lines(err.Error()) {
			fmt.Fprintln(stderr, "dcm: "+strings.TrimRight(line, "\n"))
		}
	}
	return service.Code(err)
}

var unknown = exitcode.With(exitcode.Usage, errors.New("usage: dcm-service daemon [--reload] | oneshot | gate | change | reserve | agent; dcm's units run it, see dcm.service(8), and dcm(1) is for people"))

// work is what the arguments name; nil: nothing.
func work(name string) func(context.Context, *host.Host, io.Writer) error {
	if name == "daemon --reload" {
		return func(context.Context, *host.Host, io.Writer) error { return service.HangUp(os.Getenv("MAINPID")) }
	}
	w, ok := service.Works()[name]
	if !ok {
		return nil
	}
	return func(ctx context.Context, h *host.Host, stderr io.Writer) error {
		return w.Do(ctx, h, journal.Log(stderr, w.Journal()))
	}
}
