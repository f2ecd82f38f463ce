package query

import (
	"slices"
	"strings"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/status"
	"dcm/internal/linux/unitname"
)

// printLoose names processes that have a driver open but no partition. The partitions are
// free, but the GPUs cannot be changed.
func printLoose(con *console.Console, a status.Account) {
	const most = 3
	all := slices.DeleteFunc(a.Loose(), func(h status.Holder) bool {
		_, has := unitname.ParseLease(h.Unit) // partitions, opened or not
		return has
	})
	for _, h := range all[:min(most, len(all))] {
		con.Printf("%s has %s open, and no partition\n", runstate.Holder{PID: h.PID, Command: h.Command, Unit: h.Unit}, strings.Join(h.Devices, ", "))
	}
	if more := len(all) - most; more > 0 {
		con.Printf("and %d more (dcm holders lists them)\n", more)
	}
}
