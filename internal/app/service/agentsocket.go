package service

import (
	"context"
	"log/slog"
	"os"

	"dcm/internal/engine/host"
	"dcm/internal/linux/unitname"
)

// agentSocket makes the socket of agents exist if, and only if, the configuration lets them select
// profiles. Only the daemon's loop calls it. If an administrator changes the socket by systemctl,
// that stays until the configuration changes or the daemon restarts.
type agentSocket struct {
	host  *host.Host
	log   *slog.Logger
	known bool // open is the state that was requested last
	open  bool
}

func (g *agentSocket) set(ctx context.Context, open bool) {
	if !g.known {
		// systemd removes it when it closes it.
		_, err := os.Lstat(g.host.Path("run/dcm-agent/socket"))
		g.known, g.open = true, err == nil
	}
	if g.open == open || !g.host.Here() {
		return
	}
	if err := g.ask(ctx, open); err != nil {
		g.log.Warn("agents: " + err.Error())
		return
	}
	g.open = open
}

func (g *agentSocket) ask(ctx context.Context, open bool) error {
	ctx, cancel := context.WithTimeout(ctx, host.DialTimeout)
	defer cancel()
	conn, err := g.host.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if open {
		return conn.Jobs.Start(ctx, unitname.AgentSocket)
	}
	return conn.Jobs.Stop(ctx, unitname.AgentSocket)
}
