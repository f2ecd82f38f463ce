package slurmcmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/change"
	"dcm/internal/app/cli/console"
	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
	"dcm/internal/frontends/slurm"
	"dcm/internal/linux/filelock"
	"dcm/internal/linux/systemd"
	"dcm/internal/sanitize"
)

func SlurmFeatureCmd(h *host.Host, con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "slurm-feature [FEATURE]",
		Short: "Print or change the features of this node (called by slurmd)",
		Long: `Print the features that the GPUs have, one per line: the profiles, with names that Slurm
accepts. With FEATURE, apply that profile until reboot, as 'dcm apply PROFILE' does.

slurmd runs this command as /usr/libexec/dcm/slurm-feature, see dcm-slurm(7). If the
change fails, slurmd drains the node, and slurmctld gets the reason.`,
		Args: console.Args(cobra.MaximumNArgs(1)),
	}
	cmd.RunE = func(c *cobra.Command, given []string) error {
		if len(given) == 0 {
			return printFeatures(c.Context(), h, con)
		}
		return switchFeature(c.Context(), h, con, given[0])
	}
	return cmd
}

func printFeatures(ctx context.Context, h *host.Host, con *console.Console) error {
	_, active, err := featured(ctx, h)
	for _, name := range active {
		fmt.Fprintln(con.Out, name)
	}
	return err
}

func switchFeature(ctx context.Context, h *host.Host, con *console.Console, name string) error {
	if err := h.NeedRoot("changing a feature"); err != nil {
		return err
	}
	release, err := filelock.TryLock(switching(h))
	if errors.Is(err, filelock.ErrLocked) {
		return exitcode.With(exitcode.Transient, errors.New("nothing was changed: another change of a feature is under way"))
	}
	if err != nil {
		return err
	}
	defer release()
	if err := putFeature(ctx, h, con, name); err != nil {
		if lost := reportFailure(ctx, h, name, err); lost != nil {
			con.Warn("cannot report the reason to slurmctld: " + lost.Error())
		}
		return err
	}
	return nil
}

// putFeature applies the profile of a feature until reboot.
func putFeature(ctx context.Context, h *host.Host, con *console.Console, name string) error {
	all, _, err := featured(ctx, h)
	if err != nil {
		return err
	}
	profile, err := slurm.Profile(all, name)
	if err != nil {
		return exitcode.With(exitcode.Usage, err)
	}
	limited, cancel := context.WithTimeout(ctx, slurm.ChangeTimeout)
	defer cancel()
	if err := change.ForJob(limited, h, con, profile); err != nil {
		return err
	}
	_, active, err := featured(ctx, h)
	if err == nil && !slices.Contains(active, name) {
		err = fmt.Errorf("the GPUs do not match profile %s; see 'dcm status'", profile)
	}
	return err
}

// reportFailure reports the reason to slurmctld from another process, because slurmd sets a
// reason of its own after this program ends.
func reportFailure(ctx context.Context, h *host.Host, name string, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), host.DialTimeout)
	defer cancel()
	conn, err := h.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	text, _, _ := strings.Cut(why.Error(), "\n")
	return conn.Transients.StartService(ctx, systemd.Service{
		Name:        fmt.Sprintf("dcm-slurm-failed-%d.service", os.Getpid()),
		Description: "Report to slurmctld why a feature could not be changed",
		Command:     []string{"/usr/bin/dcm", "slurm-tell", "--failed", sanitize.Text(fmt.Sprintf("cannot change to %s: %s", name, text))},
		Environment: passed(),
	})
}

// passed returns the variables by which scontrol is found and finds slurmctld and the node.
func passed() []string {
	var out []string
	for _, name := range []string{"PATH", "SLURM_CONF", "SLURMD_NODENAME"} {
		if value := sanitize.Env(name); value != "" {
			out = append(out, name+"="+value)
		}
	}
	return out
}
