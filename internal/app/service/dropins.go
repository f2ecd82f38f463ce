package service

import (
	"context"
	"log/slog"
	"slices"

	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/frontends/status"
	"dcm/internal/leases/reservation"
	"dcm/internal/linux/dropins"
	"dcm/internal/linux/filelock"
	"dcm/internal/linux/systemd"
)

// newKeeper returns the task that has PID 1 load what the generator writes. changed is called when
// the status has to be taken again.
func newKeeper(h *host.Host, cfg *effectiveConfig, changed func(), log *slog.Logger) *dropins.Keeper {
	return &dropins.Keeper{
		Dial: func(ctx context.Context) (dropins.PID1, error) {
			conn, err := h.DialToWait(ctx)
			if err != nil {
				return dropins.PID1{}, err
			}
			return dropins.PID1{Reloader: conn.Manager, Units: confinedUnits{conn, h, cfg.get}, Closer: conn}, nil
		},
		Differ:  cfg.unwritten,
		Busy:    func() (bool, error) { return filelock.Held(h.Locks().Run()) },
		Changed: changed,
		Log:     log,
	}
}

// unwritten returns the units whose drop-ins are not those that the generator is to write now.
func (c *effectiveConfig) unwritten() ([]string, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	want := generated(c.host, func(slog.Level, string) {}) // the generator has logged what is wrong with it
	return systemd.Differing(c.host.Path("run/systemd/generator"), want.Dropins())
}

// confinedUnits are the units that dcm's drop-ins confine.
type confinedUnits struct {
	pid1   *systemd.Conn
	host   *host.Host
	config func() *config.Config
}

// Realize implements [dropins.UnitController].
func (m confinedUnits) Realize(ctx context.Context, slice string) error {
	return m.pid1.Cgroups.Realize(ctx, slice)
}

// TryRestart implements [dropins.UnitController].
func (m confinedUnits) TryRestart(ctx context.Context, unit string) error {
	return m.pid1.Jobs.TryRestart(ctx, unit)
}

// Confined returns the reserved units and the leases. A reserved unit that has lost its confinement is
// restarted, but only if the last choice of partitions was for its present reservation; otherwise the
// next choice restarts it. The lost confinement of a lease is only shown.
func (m confinedUnits) Confined(ctx context.Context) ([]dropins.Unit, error) {
	all, err := reservation.ReadConfined(ctx, m.host, m.pid1.Cgroups, reservation.ReservedUnits(m.host, m.config()))
	out := make([]dropins.Unit, len(all))
	for i, c := range all {
		out[i] = dropins.Unit{Name: c.Unit, Invocation: c.Invocation, Started: c.Started, Slice: c.Slice, Loaded: c.Loaded, Keep: c.Lease || !c.Settled}
		if c.Outside() {
			out[i].Running = c.Running
		}
	}
	return out, err
}

// lost is what systemd has not loaded, as a problem of an account; nil if nothing is.
func lost(h *host.Host, cfg *config.Config, l *dropins.Loss) *status.Problem {
	if l == nil {
		return nil
	}
	p := &status.Problem{State: status.Unordered, Text: l.String(),
		Hint: "journalctl -b -t dcm-generator shows why the generator failed; a link /etc/systemd/system-generators/dcm-generator to /dev/null masks it; then systemctl daemon-reload"}
	for _, r := range reservation.ReservedUnits(h, cfg) {
		if slices.Contains(l.Units, r.Unit) {
			p.State = status.Open
		}
	}
	return p
}
