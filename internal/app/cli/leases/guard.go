package leases

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/exitcode"
	"dcm/internal/gpu"
	"dcm/internal/leases/guard"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
	"dcm/internal/text"
)

// guardProgram is the program of dcm-guard.service.
const guardProgram = "/usr/libexec/dcm/dcm-guard"

func GuardCmd(h *host.Host, con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "guard on|off|status [--json]",
		Short: "Show, load or unload the guard of exclusive partitions",
		Long: `The guard is a device program in the kernel that keeps exclusive partitions closed to all
processes except their holders. 'status' shows these partitions, 'off' unloads the guard until
the next boot, 'on' loads it. While it is not loaded, the holders of exclusive partitions stay
confined to them, but other processes can open these partitions too.`,
		Args: console.Args(guardArgs),
		ValidArgs: []cobra.Completion{
			cobra.CompletionWithDesc("on", "load the guard"), cobra.CompletionWithDesc("off", "unload it until the next boot"),
			cobra.CompletionWithDesc("status", "show the exclusive partitions"),
		},
	}
	asJSON := con.JsonFlag(cmd)
	cmd.RunE = func(c *cobra.Command, given []string) error {
		switch {
		case given[0] == "status":
			return guardStatus(c.Context(), h, con, *asJSON)
		case *asJSON:
			return exitcode.With(exitcode.Usage, errors.New("--json requires status"))
		}
		if err := h.NeedRoot("turning the guard " + given[0]); err != nil {
			return exitcode.With(exitcode.Failed, err)
		}
		if given[0] == "on" {
			return guardOn(c.Context(), h)
		}
		return guardOff(c.Context(), h)
	}
	return cmd
}

// guardArgs accepts one of the three words.
func guardArgs(_ *cobra.Command, given []string) error {
	switch {
	case len(given) == 0:
		return errors.New("no action given (want on, off or status)")
	case len(given) > 1:
		return fmt.Errorf("too many arguments (found %d, want on, off or status)", len(given))
	case !slices.Contains([]string{"on", "off", "status"}, given[0]):
		return fmt.Errorf("unknown action (found %q, want on, off or status)", given[0])
	}
	return nil
}

// guardOn returns when dcm-guard.service has run.
func guardOn(ctx context.Context, h *host.Host) error {
	conn, err := h.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := os.Remove(h.GuardOff()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return conn.Jobs.RunOnce(ctx, unitname.Guard)
}

// guardOff prevents a start of dcm-guard.service, and stops a current run.
func guardOff(ctx context.Context, h *host.Host) error {
	conn, err := h.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := os.WriteFile(h.GuardOff(), nil, 0o644); err != nil {
		return err
	}
	if err := conn.Jobs.Stop(ctx, unitname.Guard); err != nil {
		return err
	}
	if _, err := conn.Units.Settle(ctx, []string{unitname.Guard}, systemd.Unit.Settled); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, guardProgram, "off").CombinedOutput(); err != nil {
		return fmt.Errorf("cannot unload the guard: %w: %s", err, out)
	}
	return nil
}

// guardStatus prints the guard's table. The exit status is 2 if another process can use an
// exclusive partition.
func guardStatus(ctx context.Context, h *host.Host, con *console.Console, asJSON bool) error {
	var observers []string
	if cfg, _ := h.Effective(); cfg != nil {
		observers = cfg.Observers
	}
	s, err := guard.ReadStatus(ctx, h, observers)
	if errors.Is(err, gpu.ErrPartial) {
		con.Warn(fmt.Sprintf("not all processes that have a partition open are visible: %v", err))
	} else if err != nil {
		return err
	}
	if asJSON {
		err = con.Answer(s)
	} else {
		printGuard(con, s)
		err = nil
	}
	if err == nil && (s.Why != "" || len(s.Open) > 0) {
		err = exitcode.With(exitcode.Differs, nil)
	}
	return err
}

func printGuard(con *console.Console, s guard.Status) {
	switch s.State {
	case guard.Loaded:
		con.Printf("guard: loaded, %s open for their holders only\n", text.Count(s.Devices, "device"))
	case guard.Unused:
		con.Println("guard: not loaded, nothing is exclusive")
	default:
		con.Printf("guard: %s: %s\n", s.State, s.Why)
	}
	for _, text := range s.Open {
		con.Printf("confined, not exclusive: %s\n", text)
	}
	if len(s.Table) == 0 {
		return
	}
	t := con.NewTable("PARTITION", "NODE", "HOLDER", "OPENS BELOW").Optional("NODE")
	for _, g := range s.Table {
		t.Row(g.Partition, g.Node, g.Holder, console.OrDash(strings.Join(paths(g.Cgroups), " ")))
	}
	t.Row("all", "all", "dcm and observers", console.OrDash(strings.Join(paths(s.All), " ")))
	t.Flush()
}

func paths(list []runstate.Cgroup) []string {
	out := make([]string, len(list))
	for i, c := range list {
		out[i] = c.Path
	}
	return out
}
