package unit

import (
	"fmt"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/console"
	"dcm/internal/app/service"
	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
	"dcm/internal/linux/journal"
)

// work runs the work of the unit with that name.
func work(h *host.Host, con *console.Console, name string) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, _ []string) error {
		w := service.Works()[name]
		if own := h.Self().Unit; h.Here() && own != w.Unit {
			return exitcode.With(exitcode.Usage, fmt.Errorf("dcm %s runs only in %s\nhint: %s", name, w.Unit, instead(name)))
		}
		return w.Do(c.Context(), h, journal.Log(con.Err, w.Journal()))
	}
}

// instead returns what an administrator runs instead of the work of a unit.
func instead(name string) string {
	switch name {
	case "oneshot":
		return "'dcm apply' applies the selected profile"
	case "reserve":
		return "'systemctl start dcm-reserve.service' chooses the partitions again"
	case "agent":
		return "'systemctl enable --now dcm-agent.socket' serves programs"
	}
	return "'systemctl start dcm.service' starts the daemon"
}
