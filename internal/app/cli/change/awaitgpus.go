package change

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/linux/watch"
)

// scanLimit is how long the daemon may take for its scan at the end of settle-time.
const scanLimit = 5 * time.Second

// noteDelay is how long a command waits before it says so.
const noteDelay = 2 * time.Second

// awaitGPUs waits until the restarted clients have opened their GPUs again, for settle-time at most.
func awaitGPUs(ctx context.Context, h *host.Host, con *console.Console) {
	cfg, err := h.Effective()
	if err != nil || cfg == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.SettleTime+scanLimit)
	defer cancel()
	changed, err := watch.Files(ctx, []string{h.Path("var/lib/dcm")}, 30*time.Millisecond, slog.New(slog.DiscardHandler))
	if err != nil {
		return
	}
	late := time.After(noteDelay)
	for {
		units := awaited(h)
		if len(units) == 0 {
			return
		}
		select {
		case <-changed:
		case <-late:
			con.Note(fmt.Sprintf("waiting at most %s for %s to open a GPU again", cfg.SettleTime, strings.Join(units, ", ")))
		case <-ctx.Done():
			return
		}
	}
}

// awaited returns the clients that are to open a GPU again. The daemon has written its list in this boot, since a change
// has just ended.
func awaited(h *host.Host) (units []string) {
	list, err := runstate.GPUClientsIn(h.GPUClients()).Valid()
	if err != nil || list == nil {
		return nil
	}
	for _, c := range list.Clients {
		if c.State == runstate.GPUAwaited {
			units = append(units, c.Unit)
		}
	}
	return units
}
