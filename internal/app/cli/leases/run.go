package leases

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/console"
	"dcm/internal/app/cli/nodemodel"
	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
	"dcm/internal/frontends/dbusapi"
)

// RunCmd is dcm run.
func RunCmd(h *host.Host, con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run [--lease NAME | -n N | --gpus N | --gpu GPU,... | --partition PARTITION,...] [--place PLACE] [--vendor VENDOR] [--mode MODE] [--exclusive | --share N] [--make PROFILE | --make MODE] [--numa] [--wait[=TIME]] [--time TIME] [--dry-run [--json] [--free LIST] [--node KIND [--profile PROFILE]]] -- COMMAND [ARGUMENT...]",
		Short: "Run a command with partitions of its own",
		Long: `Execute the command with a lease: partitions that no other holder has, until the last
process of the lease exits. The command can open these partitions and no others.

The command replaces dcm. It has the same user, environment, terminal and limits, and
its exit status is that of dcm. DCM_LEASE, DCM_PARTITIONS, DCM_CDI_DEVICES and
DCM_NUMA_NODES describe the lease, see dcm(1). If too few partitions are free, the exit status is 75.
A lease requires that a profile was applied since boot.`,
		Args: console.Args(cobra.ArbitraryArgs),
	}
	var w dbusapi.Request
	f := cmd.Flags()
	f.SetInterspersed(false)
	inside := f.String("lease", "", "run the command in the lease with this `NAME`, which 'dcm lease hold' has made")
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("lease", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return completeLeases(h), cobra.ShellCompDirectiveNoFileComp
	}))
	addRequest(cmd, &w)
	numa := f.Bool("numa", false, "bind the command to the processors and memory of the partitions' NUMA node")
	f.BoolVar(&w.DryRun, "dry-run", false, "print which partitions would be granted, and change nothing")
	asJSON := con.JsonFlag(cmd)
	var s nodemodel.Node
	f.StringVar(&s.Free, "free", "", "with --dry-run: assume that only the partitions in `LIST` are free")
	f.StringVar(&s.Model, "node", "", "with --dry-run: a `KIND` of node, such as mi300x-8, or the FILE of a record, instead of this host")
	f.StringVar(&s.Profile, "profile", "", "with --node: its `PROFILE` (default: the selected one)")
	cmd.RunE = func(c *cobra.Command, given []string) error {
		if f.Changed("lease") {
			if err := checkEnter(*inside, given, f.Changed); err != nil {
				return exitcode.With(exitcode.Usage, err)
			}
			get := func() (dbusapi.Lease, error) { return enter(c.Context(), h, *inside) }
			return runWith(c.Context(), h, con, w, get, *numa, given)
		}
		err := checkOptions(w, f.Changed, given, *asJSON)
		if err == nil {
			err = checkHypothetical(s, w)
		}
		if err == nil && *numa && s.Hypothetical() {
			err = errors.New("--numa cannot be combined with --free or --node")
		}
		if err != nil {
			return exitcode.With(exitcode.Usage, err)
		}
		if len(given) > 0 { // its arguments may contain passwords, and all users can read a unit's description
			w.Command = strings.ToValidUTF8(filepath.Base(given[0]), "\uFFFD")
		}
		if w.DryRun {
			return showChoice(c.Context(), h, con, s, w, *numa, *asJSON)
		}
		get := func() (dbusapi.Lease, error) { return acquire(c.Context(), h, w, con.Note) }
		return runWith(c.Context(), h, con, w, get, *numa, given)
	}
	return cmd
}

// checkOptions returns the error of a command line. set reports whether an option was given.
func checkOptions(w dbusapi.Request, set func(option string) bool, command []string, asJSON bool) error {
	switch {
	case asJSON && !w.DryRun:
		return errors.New("--json requires --dry-run")
	case len(command) == 0 && !w.DryRun:
		return errors.New("no command given (want dcm run -- COMMAND [ARGUMENT...])")
	}
	return checkRequest(w, set)
}

func checkHypothetical(s nodemodel.Node, w dbusapi.Request) error {
	switch {
	case s.Hypothetical() && !w.DryRun:
		return errors.New("--free and --node require --dry-run")
	case s.Profile != "" && s.Model == "":
		return errors.New("--profile requires --node")
	case s.Hypothetical() && w.Make != "":
		return errors.New("--make cannot be combined with --free or --node")
	case s.Hypothetical() && w.Named():
		return errors.New("--gpu and --partition cannot be combined with --free or --node")
	case s.Hypothetical() && w.Share > 0:
		return errors.New("--share cannot be combined with --free or --node")
	}
	return nil
}

// showChoice prints which partitions would be granted: by the daemon, or computed here for a
// hypothetical node.
func showChoice(ctx context.Context, h *host.Host, con *console.Console, s nodemodel.Node, w dbusapi.Request, numa, asJSON bool) error {
	var l dbusapi.Lease
	if s.Hypothetical() {
		book, err := s.Allocations(ctx, h)
		if err != nil {
			return err
		}
		c, err := s.Choose(book, w)
		if err != nil {
			return err
		}
		l.Reason = c.Reason
		for _, p := range c.Partitions {
			l.Partitions = append(l.Partitions, p.Name)
		}
	} else {
		var err error
		if l, err = acquire(ctx, h, w, con.Note); err != nil {
			return err
		}
		if numa && w.Make == "" { // the instance does not exist yet
			if _, err := oneNode(l.Partitions, readParts(h)); err != nil {
				return err
			}
		}
	}
	if asJSON {
		return con.Answer(map[string]any{"partitions": l.Partitions, "reason": l.Reason})
	}
	con.Printf("%s\n%s\n", l.Reason, strings.Join(l.Partitions, "\n"))
	return nil
}

// runWith checks everything that can prevent the execution before get moves this process into a lease.
func runWith(ctx context.Context, h *host.Host, con *console.Console, w dbusapi.Request, get func() (dbusapi.Lease, error), numa bool, command []string) error {
	p, err := findProgram(command[0])
	if err != nil {
		return hintWait(w, command[0], err)
	}
	if err := mayOpen(h, w); err != nil {
		return err
	}
	if numa {
		if err := checkNodesKnown(readParts(h)); err != nil {
			return err
		}
	}
	l, err := get()
	if err != nil {
		return err
	}
	if numa {
		if err := bind(h, l.Partitions, readParts(h)); err != nil {
			return err // the lease ends with this process
		}
	}
	env := describe(ctx, h, con, os.Environ(), l)
	if con.IgnoresINT {
		signal.Ignore(syscall.SIGINT) // a signal that is received is not ignored after exec
	}
	return p.exec(command, env)
}
