package cli

import (
	"github.com/spf13/cobra"

	"dcm/internal/config"
	"dcm/internal/gpu"
	"dcm/internal/host"
	"dcm/internal/partition"
)

// profileView is a profile as `dcm profiles --json` tells it.
type profileView struct {
	Name     string           `json:"name"`
	Origin   string           `json:"origin"`
	Selected bool             `json:"selected"`
	Memory   partition.Memory `json:"memory,omitempty"`
	Layout   string           `json:"layout"`
}

func profilesCmd(h *host.Host, con *Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "profiles [--json]",
		Short: "List the profiles that can be selected",
		Args:  args(cobra.NoArgs),
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := h.Config()
		if err != nil {
			return err
		}
		devices, _ := h.Node(cfg).Devices(c.Context()) // without GPUs, what is defined
		list := profileViews(cfg, gpu.Partitionable(devices))
		if *asJSON {
			return con.answer(list)
		}
		t := newTable(con.out, "PROFILE", "COMPUTE", "MEMORY", "DEFINED IN")
		for _, p := range list {
			name := p.Name
			if p.Selected {
				name += " *"
			}
			t.row(name, p.Layout, orDash(string(p.Memory)), p.Origin)
		}
		t.flush()
		return nil
	}
	return cmd
}

func profileViews(cfg *config.Config, gpus []partition.GPU) []profileView {
	list := []profileView{}
	for _, name := range cfg.Suited(gpus) {
		p, _ := cfg.Lookup(name)
		origin := cfg.Origin[name]
		if origin == "" {
			origin = "dcm itself"
		}
		list = append(list, profileView{
			Name: name, Origin: origin, Selected: name == cfg.Selected,
			Memory: p.Memory, Layout: p.String(),
		})
	}
	return list
}
