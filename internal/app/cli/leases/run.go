package leases

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"dcm/internal/app/cli/client"
	"dcm/internal/app/cli/console"
	"dcm/internal/app/cli/nodemodel"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/exitcode"
	"dcm/internal/frontends/dbusapi"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/lease"
	"dcm/internal/leases/placement"
	"dcm/internal/linux/unitname"
)

// RunCmd is dcm run.
func RunCmd(h *host.Host, con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run [-n N | --gpus N | --gpu GPU,... | --partition PARTITION,...] [--place PLACE] [--vendor VENDOR] [--mode MODE] [--exclusive | --share N] [--make PROFILE | --make MODE] [--numa] [--wait[=TIME]] [--time TIME] [--dry-run [--json] [--free LIST] [--node KIND [--profile PROFILE]]] -- COMMAND [ARGUMENT...]",
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
	f.IntVarP(&w.Partitions, "partitions", "n", 0, "request `N` partitions (default 1)")
	f.IntVar(&w.GPUs, "gpus", 0, "request `N` whole GPUs")
	addNamed(f, &w)
	f.StringVar(&w.Place, "place", "", "placement of the partitions relative to each other (`PLACE`): pack, spread or link")
	f.StringVar(&w.Vendor, "vendor", "", "choose partitions of this `VENDOR`: amd or nvidia")
	f.StringVar(&w.Mode, "mode", "", "choose partitions of this `MODE`, such as CPX, or MIG profile, such as 3g.40gb")
	f.StringVar(&w.Make, "make", "", "create a MIG instance of this `PROFILE`, such as 3g.40gb, or set a compute mode, such as CPX, for the lease")
	f.BoolVar(&w.Exclusive, "exclusive", false, "deny the partitions to all other processes")
	f.IntVar(&w.Share, "share", 0, "share the partitions with up to `N` leases in total")
	numa := f.Bool("numa", false, "bind the command to the processors and memory of the partitions' NUMA node")
	addWait(f, &w)
	console.DurationFlag(cmd, &w.Time, "time", "", "end the lease after that `TIME`, such as 2h")
	f.BoolVar(&w.DryRun, "dry-run", false, "print which partitions would be granted, and change nothing")
	asJSON := f.Bool("json", false, "print JSON")
	var s nodemodel.Node
	f.StringVar(&s.Free, "free", "", "with --dry-run: assume that only the partitions in `LIST` are free")
	f.StringVar(&s.Model, "node", "", "with --dry-run: a `KIND` of node, such as mi300x-8, or the FILE of a record, instead of this host")
	f.StringVar(&s.Profile, "profile", "", "with --node: its `PROFILE` (default: the selected one)")
	cmd.RunE = func(c *cobra.Command, given []string) error {
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
		return runWith(c.Context(), h, con, w, *numa, given)
	}
	return cmd
}

// checkOptions returns the error of a command line. set reports whether an option was given.
func checkOptions(w dbusapi.Request, set func(option string) bool, command []string, asJSON bool) error {
	if err := checkNumbers(w, set); err != nil {
		return err
	}
	switch {
	case w.Partitions > 0 && w.GPUs > 0:
		return errors.New("--partitions and --gpus cannot be combined")
	case w.Named() && (w.Partitions > 0 || w.GPUs > 0):
		return errors.New("--gpu and --partition cannot be combined with -n or --gpus")
	case w.Exclusive && w.Share > 0:
		return errors.New("--exclusive and --share cannot be combined")
	case asJSON && !w.DryRun:
		return errors.New("--json requires --dry-run")
	case len(command) == 0 && !w.DryRun:
		return errors.New("no command given (want dcm run -- COMMAND [ARGUMENT...])")
	}
	for option, text := range map[string]string{"make": w.Make, "place": w.Place, "vendor": w.Vendor, "mode": w.Mode} {
		if text == "" && set(option) {
			return fmt.Errorf("--%s: empty; omit the option, or give a value", option)
		}
	}
	if err := errors.Join(checkNamed(w, set), checkMake(w)); err != nil {
		return err
	}
	if _, err := placement.ParsePlace(w.Place); err != nil {
		return fmt.Errorf("--place: %w", err)
	}
	_, err := partition.ParseCriteria(w.Vendor, w.Mode)
	return err
}

// checkMake checks the request for an instance that does not exist yet.
func checkMake(w dbusapi.Request) error {
	if w.Make == "" {
		return nil
	}
	if w.Partitions > 0 && partition.IsMode(w.Make) {
		w.Partitions = 0 // the number of partitions in that mode
	}
	if w.Partitions > 0 || w.GPUs > 0 || w.Named() || w.Place != "" || w.Vendor != "" || w.Mode != "" || w.Exclusive || w.Share > 0 {
		return errors.New("--make can be combined only with --wait, --time, --dry-run, --json and, for a compute mode, -n")
	}
	if err := partition.CheckMade(w.Make); err != nil {
		return fmt.Errorf("--make: %w", err)
	}
	return nil
}

func checkNumbers(w dbusapi.Request, set func(option string) bool) error {
	switch {
	case w.Partitions < 1 && set("partitions"):
		return fmt.Errorf("-n, --partitions: too small (found %d, want 1 or more)", w.Partitions)
	case w.GPUs < 1 && set("gpus"):
		return fmt.Errorf("--gpus: too small (found %d, want 1 or more)", w.GPUs)
	case w.Time <= 0 && set("time"):
		return fmt.Errorf("--time: too short (found %s, want a time such as 30m or 2h; without --time the lease has no limit)", w.Time)
	case (w.Share < 2 || w.Share > unitname.MaxShares) && set("share"):
		return fmt.Errorf("--share: impossible number (found %d, want 2 to %d)", w.Share, unitname.MaxShares)
	}
	return nil
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

// runWith checks everything that can prevent the execution before it requests a lease.
func runWith(ctx context.Context, h *host.Host, con *console.Console, w dbusapi.Request, numa bool, command []string) error {
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
	l, err := acquire(ctx, h, w, con.Note)
	if err != nil {
		return err
	}
	parts := readParts(h)
	if numa {
		if err := bind(h, l.Partitions, parts); err != nil {
			return err // the lease ends with this process
		}
	}
	devices, missing := containerDevices(ctx, hostSpecifications{h}, l.Partitions, parts)
	env, notes := environment(os.Environ(), l, devices, parts)
	if missing != "" {
		notes = append(notes, missing)
	}
	for _, note := range append(withProbe(h, l, parts), notes...) {
		con.Note(note)
	}
	if con.IgnoresINT {
		signal.Ignore(syscall.SIGINT) // a signal that is received is not ignored after exec
	}
	return p.exec(command, env)
}

// readParts returns the partitions of the host, none if they cannot be read.
func readParts(h *host.Host) []runstate.Part {
	listed, err := runstate.ReadPartitions(h.Runtime())
	if err != nil || listed == nil {
		return nil
	}
	return listed.Parts
}

// withProbe returns the notes of a lease. This process, which is in the lease, first checks
// whether the lease confines it.
func withProbe(h *host.Host, l dbusapi.Lease, parts []runstate.Part) []string {
	open := lease.Reachable(h.Path, parts, l.Partitions)
	if open != "" {
		return append([]string{fmt.Sprintf("not confined: this process can open %s, which is not in its lease. The device list of the scope has no effect; systemd may be unable to load BPF programs", open)}, l.Notes...)
	}
	notes := slices.Clone(l.Notes)
	for i, note := range notes {
		if strings.HasPrefix(note, lease.NotExclusive) {
			notes[i] = "confined, " + note
		}
	}
	return notes
}

// acquire requests a lease. It may repeat the request: a process that is alone in a lease
// exchanges it for the new one.
func acquire(ctx context.Context, h *host.Host, w dbusapi.Request, note func(string)) (dbusapi.Lease, error) {
	waiting := dbusapi.RetryPolicy{Limit: client.DaemonTimeout}
	if w.Wait {
		waiting = dbusapi.RetryPolicy{Note: note}
		w.Queued = func(p dbusapi.QueuePosition) { note(waits(p)) }
	}
	var l dbusapi.Lease
	limit := newWaitLimit(ctx, w.WaitLimit)
	defer limit.stop()
	err := client.CallDaemon(limit.ctx, h, waiting, func(c *dbusapi.Client) (err error) {
		w.WaitLimit = limit.left()
		l, err = c.Acquire(limit.ctx, w)
		return err
	})
	switch {
	case ctx.Err() != nil:
		return dbusapi.Lease{}, errors.New("no lease: interrupted")
	case err != nil && limit.ctx.Err() != nil:
		return dbusapi.Lease{}, exitcode.With(exitcode.Transient, errors.New("the time to wait is over: dcm.service does not answer"))
	case errors.Is(err, dbusapi.ErrAbsent):
		return dbusapi.Lease{}, fmt.Errorf("no lease: %w", err)
	case errors.Is(err, dbusapi.ErrDenied):
		return dbusapi.Lease{}, fmt.Errorf("no lease: %w\nhint: leases are for root, members of the group dcm, and users with a polkit authorisation", err)
	case dbusapi.IsImpossible(err):
		return dbusapi.Lease{}, exitcode.With(exitcode.Permanent, err)
	}
	return l, err
}

// waits is the message for a waiting request.
func waits(p dbusapi.QueuePosition) string {
	return fmt.Sprintf("waiting at position %d of %d in the queue: %s", p.At, p.Of, p.Reason)
}

// mayOpen returns an error if the permissions of the common device node exclude the user and
// the requested partitions need it. A device list, or a driver that is not loaded, is not its
// concern.
func mayOpen(h *host.Host, w dbusapi.Request) error {
	switch {
	case partition.IsMode(w.Make):
		return access(h.Path(lease.CommonNode))
	case w.Make != "":
		return nil
	}
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
	group := "GROUP"
	var st unix.Stat_t
	if unix.Stat(node, &st) == nil {
		group = groupName(st.Gid)
	}
	return fmt.Errorf("%s: permission denied, and a lease does not change file permissions\nhint: sudo usermod --append --groups %s NAME, then log in again", node, group)
}

func groupName(gid uint32) string {
	id := strconv.FormatUint(uint64(gid), 10)
	g, err := user.LookupGroupId(id)
	if err != nil {
		return id
	}
	return g.Name
}
