package configure

import (
	"fmt"
	"slices"
	"strings"

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
	Fits     *bool            `json:"fits,omitempty"` // the GPUs; absent if there are none
	Memory   partition.Memory `json:"memory,omitempty"`
	Layout   string           `json:"layout"`
}

func ProfilesCmd(h *host.Host, con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "profiles [--all] [--json] [--node KIND]",
		Short: "List the profiles that fit the GPUs",
		Long: `List the profiles that fit the GPUs, and how many partitions there are with each. The
selected one has a "*". Those that do not fit are named in one line; --all gives the
reason of each.`,
		Example: "  dcm profiles\n  dcm profiles --node h100-8",
		Args:    console.Args(cobra.NoArgs),
	}
	asJSON := con.JsonFlag(cmd)
	all := cmd.Flags().Bool("all", false, "list also those that do not fit, with the reason")
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
		name := nodemodel.NamesByIndex(gpus)
		if *kind == "" {
			name = func(text string) string { return text }
		}
		printOthers(con, misfits(cfg, gpus, list, name), *all)
		return nil
	}
	return cmd
}

// printProfiles prints the profiles that fit the GPUs, and how many partitions these have then. Without GPUs it
// prints all profiles.
func printProfiles(con *console.Console, cfg *config.Config, gpus []partition.GPU, list []Profile) {
	t := con.NewTable("PROFILE", "PARTITIONS", "MODE", "DEFINED IN").Optional("DEFINED IN")
	for _, p := range list {
		name, count := p.Name, "-"
		if p.Selected {
			name += " *"
		}
		if p.Fits != nil {
			if !*p.Fits {
				continue
			}
			profile, _ := cfg.Lookup(p.Name)
			after, _, _ := nodemodel.Outcome(profile, gpus) // it fits
			count = fmt.Sprint(partitions(after))
		}
		t.Row(name, count, p.mode(), p.Origin)
	}
	t.Flush()
	if slices.ContainsFunc(gpus, func(g partition.GPU) bool { return g.MIG == nil }) && slices.ContainsFunc(gpus, func(g partition.GPU) bool { return g.MIG != nil }) {
		con.Println("A name such as cpx-nps1+all-balanced selects a profile for the AMD GPUs and one for the NVIDIA GPUs.")
	}
}

// misfits returns the profiles that do not fit the GPUs.
func misfits(cfg *config.Config, gpus []partition.GPU, list []Profile, name func(string) string) []misfit {
	var out []misfit
	for _, p := range list {
		if p.Fits != nil && !*p.Fits {
			profile, _ := cfg.Lookup(p.Name)
			out = append(out, newMisfit(p.Name, profile.Fits(gpus), name))
		}
	}
	return out
}

// mode returns the modes as the status writes them: "CPX/NPS4"; "2 GPUs CPX; rest SPX; NPS1".
func (p Profile) mode() string {
	switch {
	case p.Memory == "":
		return p.Layout
	case p.Layout == "":
		return string(p.Memory)
	case strings.Contains(p.Layout, " "):
		return p.Layout + "; " + string(p.Memory)
	}
	return p.Layout + "/" + string(p.Memory)
}

func profileViews(cfg *config.Config, gpus []partition.GPU) []Profile {
	list := []Profile{}
	for _, name := range cfg.Available(gpus) {
		p, _ := cfg.Lookup(name)
		origin := cfg.Origin[name]
		if origin == "" {
			origin = "dcm itself"
		}
		view := Profile{
			Name: name, Origin: origin, Selected: name == cfg.Selected,
			Memory: p.Memory, Layout: p.String(),
		}
		if len(gpus) > 0 {
			view.Fits = new(p.Fits(gpus) == nil)
		}
		list = append(list, view)
	}
	return list
}
