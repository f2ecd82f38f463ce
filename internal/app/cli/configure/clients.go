package configure

import (
	"context"
	"fmt"
	"strings"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// checkRestart warns of clients that wait for the oneshot while the oneshot waits for them, as
// systemd reports it. Without systemd it does nothing.
func checkRestart(ctx context.Context, h *host.Host, con *console.Console, cfg *config.Config) {
	clients := host.Clients(h, cfg)
	if !h.Here() || len(clients) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, host.DialTimeout)
	defer cancel()
	conn, err := h.Dial(ctx)
	if err != nil {
		return
	}
	defer conn.Close()
	warn := func(format string, args ...any) {
		con.Warn(fmt.Sprintf(format, args...))
	}
	units, err := conn.Units.List(ctx, clients, systemd.States)
	if err != nil {
		warn("%v", err)
		return
	}
	var names []string
	for _, u := range units {
		if u.Load == "loaded" { // checkClients warns of the others
			names = append(names, u.ID)
		}
	}
	way, err := conn.Dependencies.OrderingPath(ctx, unitname.Apply, names)
	if err != nil {
		warn("%v", err)
	} else if way != nil {
		warn("clients wait for %s, but %s, a client: systemctl cat %s shows where", unitname.Apply,
			strings.Join(way, " is ordered after "), strings.Join(way[1:], " "))
	}
}
