package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"dcm/internal/config"
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
	cmd.RunE = func(*cobra.Command, []string) error {
		cfg, err := h.Config()
		if err != nil {
			return err
		}
		list := profileViews(cfg)
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

func profileViews(cfg *config.Config) []profileView {
	list := []profileView{}
	for _, name := range cfg.Names() {
		p := cfg.Profiles[name]
		list = append(list, profileView{
			Name: name, Origin: cfg.Origin[name], Selected: name == cfg.Selected,
			Memory: p.Memory, Layout: layoutText(p),
		})
	}
	return list
}

// layoutText is a profile's compute side in short: "CPX", "2 CPX, rest SPX".
func layoutText(p partition.Profile) string {
	var parts []string
	if len(p.Groups) == 0 {
		parts = append(parts, string(p.Compute))
	}
	for _, g := range p.Groups {
		switch {
		case g.Rest:
			parts = append(parts, "rest "+string(g.Compute))
		case len(g.GPUs) > 0:
			parts = append(parts, fmt.Sprintf("%d named %s", len(g.GPUs), g.Compute))
		default:
			parts = append(parts, fmt.Sprintf("%d %s", g.Count, g.Compute))
		}
	}
	if len(p.Skip) > 0 {
		parts = append(parts, fmt.Sprintf("%d skipped", len(p.Skip)))
	}
	return strings.Join(parts, ", ")
}
