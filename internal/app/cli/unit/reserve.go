package unit

import (
	"github.com/spf13/cobra"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/host"
)

func ReserveCmd(h *host.Host, con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "reserve",
		Short: "Choose partitions for the reservations, as dcm-reserve.service does",
		Long: `Choose partitions for the reservations of the configuration, and make the links below
/dev/dcm that lead to them.

This is what dcm-reserve.service does when reservations alone have changed. Every run
of dcm-apply.service does the same behind its work.`,
		Args: console.Args(cobra.NoArgs),
		RunE: work(h, con, "reserve"),
	}
}
