package query

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/host"
)

// listRuns prints the history of runs, the newest first. The JSON has the oldest first.
func listRuns(h *host.Host, con *console.Console, asJSON bool) error {
	all, err := host.History(h)
	switch {
	case err != nil:
		return err
	case asJSON:
		return con.Answer(all)
	case len(all) == 0:
		con.Println("No run is recorded.")
		return nil
	}
	t := con.NewTable("BEGAN", "TOOK", "RESULT", "PROFILE", "CHANGED", "ASKED FOR").Optional("CHANGED", "TOOK")
	for _, e := range slices.Backward(all) {
		took := "-"
		if !e.Finished.IsZero() {
			took = e.Finished.Sub(e.Started).Round(time.Millisecond).String()
		}
		changed := "-" // a run that was killed has recorded no GPUs
		if e.GPUs > 0 {
			changed = fmt.Sprintf("%d of %d", e.Changed, e.GPUs)
		}
		t.Row(e.Started.Local().Format(time.DateTime), took, string(e.Result), console.OrDash(e.Profile), changed, strings.TrimSpace(e.Asked.String()))
	}
	t.Flush()
	return nil
}
