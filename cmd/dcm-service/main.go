// Command dcm-service is the program of dcm's units. Its argument is the name of the task;
// called as dcm-generator it is the generator. It does the same as the hidden commands of dcm
// with these names, but lacks the code of the other commands. So the daemon needs less memory
// and each run starts faster.
//
// Go's runtime does not read the CPU limit of the unit's cgroup, since it would parse all
// mounts before each run.
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

	"dcm/internal/app/leaseservice"
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

var unknown = exitcode.With(exitcode.Usage, errors.New("usage: dcm-service daemon [--reload] | oneshot | gate | change | reserve | agent | make|unmake|clean|clean-after INSTANCE | extend|notice LEASE MICROSECONDS | attach NODE. See dcm.service(8), and dcm(1) for people"))

// work is what the arguments name; nil: nothing.
func work(name string) func(context.Context, *host.Host, io.Writer) error {
	if name == "daemon --reload" {
		return func(context.Context, *host.Host, io.Writer) error { return service.HangUp(os.Getenv("MAINPID")) }
	}
	if extension, ok := strings.CutPrefix(name, "extend "); ok { // in a transient service of the daemon
		unit, limit, _ := strings.Cut(extension, " ")
		return func(_ context.Context, h *host.Host, _ io.Writer) error {
			return leaseservice.WriteLimit(h, unit, limit)
		}
	}
	if notice, ok := strings.CutPrefix(name, "notice "); ok { // in another one
		unit, until, _ := strings.Cut(notice, " ")
		return func(_ context.Context, h *host.Host, _ io.Writer) error {
			return leaseservice.WriteNotice(h, unit, until)
		}
	}
	if node, ok := strings.CutPrefix(name, "attach "); ok { // in one of dcm-make@.service
		return func(ctx context.Context, h *host.Host, _ io.Writer) error { return service.Attach(ctx, h, node) }
	}
	name, instance, forInstance := strings.Cut(name, " ")
	w, ok := service.Works()[name]
	if !ok || forInstance != (w.For != nil) {
		return nil
	}
	return func(ctx context.Context, h *host.Host, stderr io.Writer) error {
		if w.For != nil {
			return w.For(ctx, h, journal.Log(stderr, w.Journal()), instance)
		}
		return w.Do(ctx, h, journal.Log(stderr, w.Journal()))
	}
}
