package service

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/exitcode"
	"dcm/internal/linux/filelock"
	"dcm/internal/linux/systemd"
)

// Gate is what dcm-gate.service runs: it returns when the daemon has queued the jobs of a change.
func Gate(_ context.Context, h *host.Host, _ *slog.Logger) error {
	release, err := filelock.Lock(h.Locks().Gate())
	if err != nil {
		return exitcode.With(exitcode.Transient, err)
	}
	release()
	return nil
}

// Change is what dcm-change.service runs: it puts the selected profile on the GPUs that the daemon has
// requested a change of. It refuses a change of others, since their users are not stopped. It holds
// the lock of the gate, so that the next change does not stop it.
func Change(ctx context.Context, h *host.Host, log *slog.Logger) error {
	if err := h.NeedRoot("changing GPUs"); err != nil {
		return err
	}
	release, err := filelock.Lock(h.Locks().Gate())
	if err != nil {
		return exitcode.With(exitcode.Transient, err)
	}
	defer release()
	state, err := runstate.ReadState(h.Runtime())
	if err != nil {
		return exitcode.With(exitcode.Transient, err)
	}
	requested := &runstate.Change{}
	if state != nil && state.Boot == h.BootID() && state.Phase == runstate.Applying && state.Change != nil {
		requested = state.Change
	}
	if err := checkStopped(ctx, h, requested.Stopped); err != nil {
		return exitcode.With(exitcode.Transient, err)
	}
	return runOnce(ctx, h, log, requested)
}

// checkStopped returns an error if one of the units still runs as it did when the change was requested:
// the daemon was killed before it had requested all restarts. Its processes would continue with the
// permissions for partitions that no longer exist.
func checkStopped(ctx context.Context, h *host.Host, units map[string]string) error {
	if len(units) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, host.DialTimeout)
	defer cancel()
	conn, err := h.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	now, err := conn.Units.List(ctx, slices.Sorted(maps.Keys(units)), systemd.All)
	if err != nil {
		return fmt.Errorf("cannot determine whether the units of the change are stopped: %w", err)
	}
	if left := running(now, units); len(left) > 0 {
		return fmt.Errorf("%s: not stopped for the change, since the daemon ended during its request; the daemon requests it again", strings.Join(left, ", "))
	}
	return nil
}

// running returns the units that are up in the given invocations.
func running(units []systemd.Unit, invocations map[string]string) []string {
	var out []string
	for _, u := range units {
		if u.Up() && u.Invocation == invocations[u.ID] {
			out = append(out, u.ID)
		}
	}
	return out
}
