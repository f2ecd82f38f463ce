package unit

import (
	"os"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/console"
	"dcm/internal/app/service"
	"dcm/internal/engine/host"
)

func DaemonCmd(h *host.Host, con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "daemon",
		Short: "Watch the configuration and keep the profile applied, as dcm.service does",
		Long: `Watch the configuration and keep the selected profile on the GPUs.

This is what dcm.service does. It changes no GPU itself: when there is something
to do it has systemd restart dcm-apply.service, and the client units with it.`,
		Args: console.Args(cobra.NoArgs),
	}
	reload := cmd.Flags().Bool("reload", false, "have the daemon $MAINPID look again")
	cobra.CheckErr(cmd.Flags().MarkHidden("reload"))
	cmd.RunE = func(c *cobra.Command, _ []string) error {
		if *reload {
			return service.HangUp(os.Getenv("MAINPID"))
		}
		return work(h, con, "daemon")(c, nil)
	}
	return cmd
}
