package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"dcm/internal/bus"
	"dcm/internal/exit"
	"dcm/internal/host"
	"dcm/internal/partition"
	"dcm/internal/service"
)

// What a shell's status is for a command that is not there, or cannot be executed.
const (
	notFound      = 127
	notExecutable = 126
)

func runCmd(h *host.Host, con *Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run [-n N | --gpus N] [--place PLACE] [--vendor VENDOR] [--mode MODE] [--exclusive | --share N] [--wait] [--time TIME] [--dry-run [--json] [--free LIST] [--node KIND [--profile PROFILE]]] -- COMMAND [ARGUMENT...]",
		Short: "Run a command with partitions of its own, and no others",
		Long: `Have the daemon choose partitions that nobody has, move this process to where it can
open them and no others, and execute the command in its place. The partitions are its
own until its last process has ended: that is a lease, and systemd keeps it.

The command has the caller's user, environment, terminal and limits, and its exit
status is the one of dcm. If there is not enough free, the exit status is 75.`,
		Args: args(cobra.ArbitraryArgs),
	}
	var w bus.Want
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
	f.DurationVar(&w.Time, "time", 0, "end the lease after that time")
	f.BoolVar(&w.DryRun, "dry-run", false, "tell what would be given, and do nothing")
	asJSON := f.Bool("json", false, "answer in JSON")
	var s scene
	f.StringVar(&s.free, "free", "", "with --dry-run: as if these partitions were free, and no others")
	f.StringVar(&s.node, "node", "", "with --dry-run: on a `KIND` of node, such as mi300x-8, instead of this host")
	f.StringVar(&s.profile, "profile", "", "with --node: the profile that it has; else the selected one")
	cmd.RunE = func(c *cobra.Command, given []string) error {
		err := sensible(w, given, *asJSON)
		if err == nil {
			err = s.sensible(w)
		}
		if err != nil {
			return exit.With(exit.Usage, err)
		}
		w.Command = strings.Join(given, " ")
		if w.DryRun {
			return considered(c.Context(), h, con, s, w, *asJSON)
		}
		return runWith(c.Context(), h, con, w, given)
	}
	return cmd
}

func sensible(w bus.Want, command []string, asJSON bool) error {
	switch {
	case w.Partitions < 0 || w.GPUs < 0 || w.Time < 0 || w.Share < 0:
		return errors.New("numbers and times are not negative")
	case w.Partitions > 0 && w.GPUs > 0:
		return errors.New("ask for partitions or for whole GPUs")
	case w.Exclusive && w.Share > 0:
		return errors.New("a lease is exclusive or shared, not both")
	case asJSON && !w.DryRun:
		return errors.New("--json goes with --dry-run")
	case len(command) == 0 && !w.DryRun:
		return errors.New("name a command")
	}
	_, err := partition.ParseSought(w.Vendor, w.Mode)
	return err
}

func (s scene) sensible(w bus.Want) error {
	switch {
	case s.imagined() && !w.DryRun:
		return errors.New("--free and --node go with --dry-run")
	case s.profile != "" && s.node == "":
		return errors.New("--profile goes with --node")
	case s.imagined() && w.Share > 0:
		return errors.New("who shares what is for this host to say, as it is: --share goes without --free and --node")
	}
	return nil
}

// considered tells what would be given: by the daemon, or without it where that is not
// about what is so.
func considered(ctx context.Context, h *host.Host, con *Console, s scene, w bus.Want, asJSON bool) error {
	var l bus.Lease
	if s.imagined() {
		book, err := s.book(ctx, h)
		if err != nil {
			return err
		}
		c, err := s.choose(book, w)
		if err != nil {
			return err
		}
		l.Reason = c.Reason
		for _, p := range c.Partitions {
			l.Partitions = append(l.Partitions, p.Name)
		}
	} else {
		var err error
		if l, err = acquire(ctx, w, con.note); err != nil {
			return err
		}
	}
	if asJSON {
		return con.answer(map[string]any{"partitions": l.Partitions, "reason": l.Reason})
	}
	fmt.Fprintf(con.out, "%s\n%s\n", l.Reason, strings.Join(l.Partitions, "\n"))
	return nil
}

// runWith finds out first all that could be in the way of the command: a lease is
// asked for when it can be used.
func runWith(ctx context.Context, h *host.Host, con *Console, w bus.Want, command []string) error {
	path, err := found(command[0])
	if err != nil {
		return err
	}
	if err := mayOpen(h, w); err != nil {
		return err
	}
	l, err := acquire(ctx, w, con.note)
	if err != nil {
		return err
	}
	for _, note := range l.Notes {
		con.note(note)
	}
	if con.deaf {
		signal.Ignore(syscall.SIGINT) // what dcm itself listens to begins anew with another program
	}
	err = syscall.Exec(path, command, os.Environ())
	return exit.With(notExecutable, fmt.Errorf("cannot execute %s: %w", command[0], err))
}

// found is where a shell finds a command: PATH is the caller's, with the directories in it
// that are relative.
func found(command string) (string, error) {
	path, err := exec.LookPath(command)
	switch {
	case err == nil, errors.Is(err, exec.ErrDot):
		return path, nil
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EISDIR):
		return "", exit.With(notExecutable, err)
	}
	return "", exit.With(notFound, err)
}

// acquire asks for a lease. Who waits goes on to do so when the daemon was started anew.
func acquire(ctx context.Context, w bus.Want, tell func(string)) (bus.Lease, error) {
	if w.Wait {
		w.Queued = func(p bus.Position) { tell(waits(p)) }
	}
	c, err := bus.Dial(ctx, bus.SystemBus)
	if err == nil {
		defer c.Close()
	}
	for err == nil {
		var l bus.Lease
		if l, err = c.Acquire(ctx, w); err == nil && ctx.Err() == nil {
			return l, nil
		}
		if errors.Is(err, bus.ErrGone) && w.Wait {
			tell(err.Error() + "; standing in line anew when it is back")
			err = c.Back(ctx)
		}
	}
	switch {
	case ctx.Err() != nil:
		return bus.Lease{}, errors.New("no lease: it is not waited for any longer")
	case errors.Is(err, bus.ErrAbsent), errors.Is(err, bus.ErrGone):
		err = fmt.Errorf("leases are given by the daemon: %w; systemctl start dcm", err)
	case errors.Is(err, bus.ErrDenied):
		err = fmt.Errorf("a lease is for root, members of the group dcm and whom polkit lets: %w", err)
	case bus.IsShort(err):
		return bus.Lease{}, exit.With(exit.Transient, err)
	case bus.IsImpossible(err):
		return bus.Lease{}, exit.With(exit.Permanent, err)
	}
	return bus.Lease{}, err
}

// waits is what a waiting request's caller is told.
func waits(p bus.Position) string {
	return fmt.Sprintf("waiting at position %d of %d in the queue: %s", p.At, p.Of, p.Reason)
}

// mayOpen tells a user whom the mode of the device file keeps out what to do about it.
// A list of devices, or a driver that is not loaded, is not for here; nor is a file that
// what is asked for does not need.
func mayOpen(h *host.Host, w bus.Want) error {
	sought, err := partition.ParseSought(w.Vendor, w.Mode)
	if err != nil || !service.Opens(sought) {
		return err
	}
	return access(h.Path(service.Common))
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

func releaseCmd(con *Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "release LEASE",
		Short: "End a lease, and what runs in it",
		Long: `End a lease, by the name of its unit (dcm partitions lists them). What runs in it is
told to end (SIGTERM), and killed a while later. Root may end any, a user his own.`,
		Args: args(cobra.ExactArgs(1)),
	}
	cmd.RunE = func(c *cobra.Command, given []string) error { return release(c.Context(), given[0]) }
	return cmd
}

// releasing is how long the daemon may take to answer.
const releasing = time.Minute

func release(ctx context.Context, lease string) error {
	ctx, cancel := context.WithTimeout(ctx, releasing)
	defer cancel()
	c, err := bus.Dial(ctx, bus.SystemBus)
	if err != nil {
		return fmt.Errorf("%w; as root, systemctl stop %s", err, lease)
	}
	defer c.Close()
	return c.Release(ctx, lease)
}
