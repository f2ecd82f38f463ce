package unit

import (
	"github.com/spf13/cobra"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/host"
)

func AgentCmd(h *host.Host, con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "agent",
		Short: "Answer programs that select profiles, as dcm-agent.service does",
		Long: `Answer programs on this host that have profiles put on the GPUs out of configurations
of their own, on the socket that systemd hands over. See org.deviceconfig.Agent1(5).

This is what dcm-agent.service does, for as long as somebody is connected.`,
		Args: console.Args(cobra.NoArgs),
		RunE: work(h, con, "agent"),
	}
}
