package unit

import (
	"github.com/spf13/cobra"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/host"
)

func OneshotCmd(h *host.Host, con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "oneshot",
		Short: "Apply the selected profile to the GPUs (dcm-apply.service)",
		Long: `Apply the selected profile to the GPUs and write /run/dcm/report.json.

dcm-apply.service runs this command. It stops and starts no unit, and refuses to begin
while a process has a GPU open. Use 'dcm apply' to restart the clients around the change.`,
		Args:   console.Args(cobra.NoArgs),
		Hidden: true,
		RunE:   work(h, con, "oneshot"),
	}
}
