package unit

import (
	"github.com/spf13/cobra"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/host"
)

func AgentCmd(h *host.Host, con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "agent",
		Short: "Serve programs that select profiles (dcm-agent.service)",
		Long: `Serve programs on this host that select profiles, with configurations of their own, on
the socket that systemd passes. See org.deviceconfig.Agent1(5).

dcm-agent.service runs this command while a program is connected.`,
		Args:   console.Args(cobra.NoArgs),
		Hidden: true,
		RunE:   work(h, con, "agent"),
	}
}
