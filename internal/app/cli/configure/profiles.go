package configure

import (
	"fmt"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/console"
	"dcm/internal/app/cli/nodemodel"
	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/gpu/partition"
)

// Profile is an entry of dcm profiles --json.
type Profile struct {
	Name     string           `json:"name"`
	Origin   string           `json:"origin"`
	Selected bool             `json:"selected"`
	Memory   partition.Memory `json:"memory,omitempty"`
	Layout   string           `json:"layout"`
}

func ProfilesCmd(h *host.Host, con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "profiles [--json] [--node KIND]",
		Short:   "List the profiles that can be selected",
		Example: "  dcm profiles --node h100-8",
		Args:    console.Args(cobra.NoArgs),
	}
	asJSON := console.JsonFlag(cmd)
	kind := nodemodel.NodeFlag(cmd, "list those of a `KIND` of node")
	cmd.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := h.Config()
		if err != nil {
			return err
		}
		gpus, err := nodemodel.GPUs(c.Context(), h, cfg, *kind)
		if err != nil && *kind != "" {
			return err
		}
		list := profileViews(cfg, gpus) // without GPUs, all defined ones
		if *asJSON {
			return con.Answer(list)
		}
		printProfiles(con, cfg, gpus, list)
		return nil
	}
	return cmd
}

// printProfiles prints the profiles, whether they fit the GPUs, and how many partitions these have then.
func printProfiles(con *console.Console, cfg *config.Config, gpus []partition.GPU, list []Profile) {
	t := con.NewTable("PROFILE", "FITS", "PARTITIONS", "COMPUTE", "MEMORY", "DEFINED IN").Optional("DEFINED IN", "MEMORY")
	for _, p := range list {
		name, fits, count := p.Name, "-", "-"
		if p.Selected {
			name += " *"
		}
		if len(gpus) > 0 {
			fits = "no"
			profile, _ := cfg.Lookup(p.Name)
			if after, _, err := nodemodel.Outcome(profile, gpus); err == nil {
				fits, count = "yes", fmt.Sprint(partitions(after))
			}
		}
		t.Row(name, fits, count, p.Layout, console.OrDash(string(p.Memory)), p.Origin)
	}
	t.Flush()
}

func profileViews(cfg *config.Config, gpus []partition.GPU) []Profile {
	list := []Profile{}
	for _, name := range cfg.Available(gpus) {
		p, _ := cfg.Lookup(name)
		origin := cfg.Origin[name]
		if origin == "" {
			origin = "dcm itself"
		}
		list = append(list, Profile{
			Name: name, Origin: origin, Selected: name == cfg.Selected,
			Memory: p.Memory, Layout: p.String(),
		})
	}
	return list
}
