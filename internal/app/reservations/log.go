package reservations

import (
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strconv"

	"dcm/internal/engine/config"
	"dcm/internal/engine/event"
	"dcm/internal/engine/runstate"
	"dcm/internal/leases/lease"
)

// logChoice logs a choice that differs from the previous one.
func (s Publisher) logChoice(r config.Reservation, g lease.Grant, before []string) {
	switch {
	case len(g.Nodes) == 0:
		s.Log.Error(fmt.Sprintf("reservation %s has no partitions: %s", r.Name, g.Reason), event.Reserved.Attr(), "reservation", r.Name, "unit", r.Unit, "partitions", []string(nil))
	case !reflect.DeepEqual(g.Nodes, before):
		share := ""
		if r.Share > 0 {
			share = strconv.Itoa(r.Share)
		}
		s.Log.Info(fmt.Sprintf("reservation %s has %s", r.Name, g.Reason), event.Reserved.Attr(), "reservation", r.Name, "unit", r.Unit, "partitions", g.Partitions, "share", share)
	}
}

// logRemoved logs the units that have a reservation no longer. dcm usage would count their former partitions
// from their next start on.
func logRemoved(log *slog.Logger, before, now []runstate.Reservation) {
	for _, r := range before {
		if r.Make == "" && !slices.ContainsFunc(now, func(other runstate.Reservation) bool { return other.Unit == r.Unit }) {
			log.Info(fmt.Sprintf("reservation %s is removed", r.Name), event.Reserved.Attr(), "reservation", r.Name, "unit", r.Unit, "partitions", []string(nil))
		}
	}
}
