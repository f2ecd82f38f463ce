package unit

import (
	"github.com/spf13/cobra"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/host"
)

func ReserveCmd(h *host.Host, con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "reserve",
		Short: "Choose partitions for the reservations (dcm-reserve.service)",
		Long: `Choose partitions for the reservations of the configuration, and link them below /dev/dcm.

dcm-reserve.service runs this command when only reservations have changed. Every run of
dcm-apply.service ends with the same work.`,
		Args:   console.Args(cobra.NoArgs),
		Hidden: true,
		RunE:   work(h, con, "reserve"),
	}
}
