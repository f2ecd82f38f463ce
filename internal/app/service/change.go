package service

import (
	"context"
	"log/slog"

	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/exitcode"
	"dcm/internal/linux/filelock"
)

// Gate is what dcm-gate.service runs: it returns when the daemon has queued the jobs of a change.
func Gate(_ context.Context, h *host.Host, _ *slog.Logger) error {
	release, err := filelock.Lock(h.GateLock())
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
	release, err := filelock.Lock(h.GateLock())
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
	return runOnce(ctx, h, log, requested)
}
