package fluxcmd

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/change"
	"dcm/internal/app/cli/client"
	"dcm/internal/app/cli/console"
	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
)

func FluxPrologCmd(h *host.Host, con *console.Console) *cobra.Command {
	return aroundJob(h, con, "prolog", "Apply the profile that a job requests (called by Flux)",
		`Apply the profile of the job's attribute gpumode until reboot, as 'dcm apply PROFILE'
does. A job without the attribute changes nothing. If no profile has that name, the job
gets a fatal exception, and the node is not drained. See dcm-flux(7).`, prolog)
}

func FluxEpilogCmd(h *host.Host, con *console.Console) *cobra.Command {
	return aroundJob(h, con, "epilog", "Return to the selected profile after a job (called by Flux)",
		`End the selection that 'dcm flux prolog' made for this job, and apply the profile that
is selected permanently. See dcm-flux(7).`, epilog)
}

func aroundJob(h *host.Host, con *console.Console, use, short, long string, do func(context.Context, *host.Host, *console.Console, job, string) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Long: long, Args: console.Args(cobra.NoArgs), RunE: func(c *cobra.Command, _ []string) error {
		if err := h.NeedRoot("changing the GPUs for a job"); err != nil {
			return err
		}
		j, err := thisJob()
		if err != nil {
			return err
		}
		mode, err := j.gpumode(c.Context())
		if err != nil || mode == "" {
			return err
		}
		return do(c.Context(), h, con, j, mode)
	}}
}

func prolog(ctx context.Context, h *host.Host, con *console.Console, j job, mode string) error {
	cfg, err := h.Config()
	if err != nil {
		return err
	}
	profile, err := profileFor(cfg, mode, memoryMode(ctx, h))
	if err == nil {
		err = change.CheckProfile(ctx, h, []string{profile})
	}
	if err != nil {
		con.Warn(err.Error())
		return j.fail(ctx, err)
	}
	return change.ForJob(ctx, h, con, profile)
}

func epilog(ctx context.Context, h *host.Host, con *console.Console, j job, mode string) error {
	cfg, err := h.Config()
	if err != nil {
		return err
	}
	profile, err := profileFor(cfg, mode, memoryMode(ctx, h))
	if err != nil || !host.UntilReboot(h, cfg) || cfg.Selected != profile {
		return nil // the prolog has selected nothing, or the administrator has selected another profile since
	}
	return change.AfterJob(ctx, h, con)
}

// profileFor returns the profile that gpumode names: a profile, or a compute mode with the memory mode that the
// GPUs have.
func profileFor(cfg *config.Config, gpumode, memory string) (string, error) {
	for _, name := range []string{gpumode, strings.ToLower(gpumode), strings.ToLower(gpumode + "-" + memory)} {
		if cfg.Has(name) {
			return name, nil
		}
	}
	return "", fmt.Errorf("gpumode: no such profile (found %q, want one of %s)", gpumode, strings.Join(cfg.Available(nil), ", "))
}

// memoryMode returns the memory mode of the first GPU of AMD, "" if there is none.
func memoryMode(ctx context.Context, h *host.Host) string {
	for _, p := range client.Account(ctx, h).Parts {
		if _, memory, ok := strings.Cut(p.Mode, "/"); ok {
			return memory
		}
	}
	return ""
}
