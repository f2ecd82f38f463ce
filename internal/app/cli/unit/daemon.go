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
		Short: "Watch the configuration and keep the profile applied (dcm.service)",
		Long: `Watch the configuration and keep the selected profile on the GPUs.

dcm.service runs this command. It changes no GPU itself: if there is something to do, it
requests a restart of dcm-apply.service, and with it of the clients.`,
		Args:   console.Args(cobra.NoArgs),
		Hidden: true,
	}
	reload := cmd.Flags().Bool("reload", false, "make the daemon $MAINPID check again")
	cobra.CheckErr(cmd.Flags().MarkHidden("reload"))
	cmd.RunE = func(c *cobra.Command, _ []string) error {
		if *reload {
			return service.HangUp(os.Getenv("MAINPID"))
		}
		return work(h, con, "daemon")(c, nil)
	}
	return cmd
}
