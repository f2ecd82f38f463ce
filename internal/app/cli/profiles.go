package cli

import (
	"github.com/spf13/cobra"

	"dcm/internal/app/host"
	"dcm/internal/engine/config"
	"dcm/internal/gpu/partition"
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
		Use:     "profiles [--json] [--node KIND]",
		Short:   "List the profiles that can be selected",
		Example: "  dcm profiles --node h100-8",
		Args:    args(cobra.NoArgs),
	}
	asJSON := jsonFlag(cmd)
	kind := nodeFlag(cmd, "list those of a `KIND` of node")
	cmd.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := h.Config()
		if err != nil {
			return err
		}
		gpus, err := judges(c.Context(), h, cfg, *kind)
		if err != nil && *kind != "" {
			return err
		}
		list := profileViews(cfg, gpus) // without GPUs, what is defined
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
	for _, name := range cfg.Available(gpus) {
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
