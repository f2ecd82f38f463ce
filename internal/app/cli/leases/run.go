package leases

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"dcm/internal/app/cli/client"
	"dcm/internal/app/cli/console"
	"dcm/internal/app/cli/imagined"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/exitcode"
	"dcm/internal/frontends/dbusapi"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/lease"
	"dcm/internal/leases/placement"
	"dcm/internal/linux/unitname"
)

func RunCmd(h *host.Host, con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run [-n N | --gpus N] [--place PLACE] [--vendor VENDOR] [--mode MODE] [--exclusive | --share N] [--wait] [--time TIME] [--dry-run [--json] [--free LIST] [--node KIND [--profile PROFILE]]] -- COMMAND [ARGUMENT...]",
		Short: "Run a command with partitions of its own, and no others",
		Long: `Have the daemon choose partitions that nobody has, move this process to where it can
open them and no others, and execute the command in its place. The partitions are its
own until its last process has ended: that is a lease, and systemd keeps it.

The command has the caller's user, environment, terminal and limits, and its exit
status is the one of dcm. If there is not enough free, the exit status is 75.`,
		Args: console.Args(cobra.ArbitraryArgs),
	}
	var w dbusapi.Request
	f := cmd.Flags()
	f.SetInterspersed(false)
	f.IntVarP(&w.Partitions, "partitions", "n", 0, "how many partitions; 1 if nothing is said")
	f.IntVar(&w.GPUs, "gpus", 0, "how many whole GPUs")
	f.StringVar(&w.Place, "place", "", "how they lie to each other: pack, spread or link")
	f.StringVar(&w.Vendor, "vendor", "", "of whose GPUs: amd or nvidia")
	f.StringVar(&w.Mode, "mode", "", "of which mode, such as CPX, or MIG profile, such as 3g.40gb")
	f.BoolVar(&w.Exclusive, "exclusive", false, "have them open for nobody else")
	f.IntVar(&w.Share, "share", 0, "share them with others who share, so many in all")
	f.BoolVar(&w.Wait, "wait", false, "wait until there is enough")
	console.DurationFlag(cmd, &w.Time, "time", "", "end the lease after that time")
	f.BoolVar(&w.DryRun, "dry-run", false, "tell what would be given, and do nothing")
	asJSON := f.Bool("json", false, "answer in JSON")
	var s imagined.Node
	f.StringVar(&s.Free, "free", "", "with --dry-run: as if these partitions were free, and no others")
	f.StringVar(&s.Model, "node", "", "with --dry-run: on a `KIND` of node, such as mi300x-8, instead of this host")
	f.StringVar(&s.Profile, "profile", "", "with --node: the profile that it has; else the selected one")
	cmd.RunE = func(c *cobra.Command, given []string) error {
		err := checkOptions(w, f.Changed, given, *asJSON)
		if err == nil {
			err = checkImagined(s, w)
		}
		if err != nil {
			return exitcode.With(exitcode.Usage, err)
		}
		if len(given) > 0 { // its arguments may hold passwords, and everybody can read a unit's description
			w.Command = strings.ToValidUTF8(filepath.Base(given[0]), "\uFFFD")
		}
		if w.DryRun {
			return showChoice(c.Context(), h, con, s, w, *asJSON)
		}
		return runWith(c.Context(), h, con, w, given)
	}
	return cmd
}

// sensible returns what is wrong with an invocation; set reports whether an option was
// given.
func checkOptions(w dbusapi.Request, set func(option string) bool, command []string, asJSON bool) error {
	switch {
	case w.Partitions < 1 && set("partitions"):
		return fmt.Errorf("-n, --partitions: too small (found %d, want 1 or more)", w.Partitions)
	case w.GPUs < 1 && set("gpus"):
		return fmt.Errorf("--gpus: too small (found %d, want 1 or more)", w.GPUs)
	case w.Time <= 0 && set("time"):
		return fmt.Errorf("--time: too short (found %s, want a time such as 30m or 2h; without --time the lease has no limit)", w.Time)
	case (w.Share < 2 || w.Share > unitname.MaxShares) && set("share"):
		return fmt.Errorf("--share: impossible number (found %d, want 2 to %d)", w.Share, unitname.MaxShares)
	case w.Partitions > 0 && w.GPUs > 0:
		return errors.New("--partitions and --gpus cannot be combined")
	case w.Exclusive && w.Share > 0:
		return errors.New("--exclusive and --share cannot be combined")
	case asJSON && !w.DryRun:
		return errors.New("--json goes with --dry-run")
	case len(command) == 0 && !w.DryRun:
		return errors.New("no command given: dcm run -- COMMAND [ARGUMENT...]")
	}
	if _, err := placement.ParsePlace(w.Place); err != nil {
		return fmt.Errorf("--place: %w", err)
	}
	_, err := partition.ParseCriteria(w.Vendor, w.Mode)
	return err
}

func checkImagined(s imagined.Node, w dbusapi.Request) error {
	switch {
	case s.Imagined() && !w.DryRun:
		return errors.New("--free and --node go with --dry-run")
	case s.Profile != "" && s.Model == "":
		return errors.New("--profile goes with --node")
	case s.Imagined() && w.Share > 0:
		return errors.New("who shares what is for this host to say, as it is: --share goes without --free and --node")
	}
	return nil
}

// considered tells what would be given: by the daemon, or without it where that is not
// about what is so.
func showChoice(ctx context.Context, h *host.Host, con *console.Console, s imagined.Node, w dbusapi.Request, asJSON bool) error {
	var l dbusapi.Lease
	if s.Imagined() {
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
	}
	if asJSON {
		return con.Answer(map[string]any{"partitions": l.Partitions, "reason": l.Reason})
	}
	fmt.Fprintf(con.Out, "%s\n%s\n", l.Reason, strings.Join(l.Partitions, "\n"))
	return nil
}

// runWith finds out first all that could be in the way of the command: a lease is
// asked for when it can be used.
func runWith(ctx context.Context, h *host.Host, con *console.Console, w dbusapi.Request, command []string) error {
	p, err := findProgram(command[0])
	if err != nil {
		return err
	}
	if err := mayOpen(h, w); err != nil {
		return err
	}
	l, err := acquire(ctx, h, w, con.Note)
	if err != nil {
		return err
	}
	for _, note := range withProbe(h, l) {
		con.Note(note)
	}
	if con.IgnoresINT {
		signal.Ignore(syscall.SIGINT) // a signal that is received is not ignored after exec
	}
	return p.exec(command)
}

// withProbe returns the notes of a lease that this process is in, with what it sees itself:
// whether the lease confines it.
func withProbe(h *host.Host, l dbusapi.Lease) []string {
	p, err := runstate.ReadPartitions(h.Runtime())
	if err != nil || p == nil {
		return l.Notes
	}
	open := lease.Reachable(h.Path, p.Parts, l.Partitions)
	if open != "" {
		return append([]string{fmt.Sprintf("not confined: this process can open %s, which is not in its lease: the device list of the scope has no effect, as where systemd cannot load BPF programs", open)}, l.Notes...)
	}
	notes := slices.Clone(l.Notes)
	for i, note := range notes {
		if strings.HasPrefix(note, lease.NotExclusive) {
			notes[i] = "confined, " + note
		}
	}
	return notes
}

// acquire requests a lease. A request may be repeated: a process that is alone in a
// lease gets another one in exchange.
func acquire(ctx context.Context, h *host.Host, w dbusapi.Request, note func(string)) (dbusapi.Lease, error) {
	waiting := dbusapi.RetryPolicy{Limit: client.DaemonTimeout}
	if w.Wait {
		waiting = dbusapi.RetryPolicy{Note: note}
		w.Queued = func(p dbusapi.QueuePosition) { note(waits(p)) }
	}
	var l dbusapi.Lease
	err := client.CallDaemon(ctx, h, waiting, func(c *dbusapi.Client) (err error) {
		l, err = c.Acquire(ctx, w)
		return err
	})
	switch {
	case ctx.Err() != nil:
		return dbusapi.Lease{}, errors.New("no lease: interrupted")
	case errors.Is(err, dbusapi.ErrAbsent):
		return dbusapi.Lease{}, fmt.Errorf("no lease: %w", err)
	case errors.Is(err, dbusapi.ErrDenied):
		return dbusapi.Lease{}, fmt.Errorf("a lease is for root, members of the group dcm and whom polkit lets: %w", err)
	case dbusapi.IsImpossible(err):
		return dbusapi.Lease{}, exitcode.With(exitcode.Permanent, err)
	}
	return l, err
}

// waits is what a waiting request's caller is told.
func waits(p dbusapi.QueuePosition) string {
	return fmt.Sprintf("waiting at position %d of %d in the queue: %s", p.At, p.Of, p.Reason)
}

// mayOpen tells a user whom the mode of the device file keeps out what to do about it.
// A list of devices, or a driver that is not loaded, is not for here; nor is a file that
// what is asked for does not need.
func mayOpen(h *host.Host, w dbusapi.Request) error {
	sought, err := partition.ParseCriteria(w.Vendor, w.Mode)
	if err != nil || !lease.MayNeedCommonNode(sought) {
		return err
	}
	return access(h.Path(lease.CommonNode))
}

func access(node string) error {
	err := unix.Faccessat(unix.AT_FDCWD, node, unix.R_OK|unix.W_OK, unix.AT_EACCESS)
	if !errors.Is(err, unix.EACCES) {
		return nil
	}
	whose := "its group"
	var st unix.Stat_t
	if unix.Stat(node, &st) == nil {
		whose = groupName(st.Gid)
	}
	return fmt.Errorf("you may not open %s, and a lease would not help: have yourself added to the group %s (sudo usermod --append --groups %s NAME) and log in anew", node, whose, whose)
}

func groupName(gid uint32) string {
	id := strconv.FormatUint(uint64(gid), 10)
	g, err := user.LookupGroupId(id)
	if err != nil {
		return id
	}
	return g.Name
}

func ReleaseCmd(h *host.Host) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "release LEASE",
		Short: "End a lease, and what runs in it",
		Long: `End a lease, by the name of its unit (dcm partitions lists them). What runs in it is
told to end (SIGTERM), and killed a while later. Root may end any, a user his own.`,
		Args: console.Args(cobra.ExactArgs(1)),
	}
	cmd.RunE = func(c *cobra.Command, given []string) error { return release(c.Context(), h, given[0]) }
	return cmd
}

// releaseTimeout is how long the daemon may take to answer, with the wait for it.
const releaseTimeout = time.Minute

func release(ctx context.Context, h *host.Host, lease string) error {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	calls := 0
	err := client.CallDaemon(ctx, h, dbusapi.RetryPolicy{Limit: client.DaemonTimeout}, func(c *dbusapi.Client) error {
		if calls++; calls > 1 && !slices.Contains(host.LeaseUnits(h), lease) {
			return nil // by the call that was not answered
		}
		return c.Release(ctx, lease)
	})
	if errors.Is(err, dbusapi.ErrAbsent) {
		return fmt.Errorf("%w; as root, systemctl stop %s", err, lease)
	}
	return err
}
