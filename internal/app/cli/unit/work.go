package unit

import (
	"github.com/spf13/cobra"

	"dcm/internal/app/cli/console"
	"dcm/internal/app/service"
	"dcm/internal/engine/host"
	"dcm/internal/linux/journal"
)

// work runs the work of the unit with that name.
func work(h *host.Host, con *console.Console, name string) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, _ []string) error {
		w := service.Works()[name]
		return w.Do(c.Context(), h, journal.Log(con.Err, w.Journal()))
	}
}
