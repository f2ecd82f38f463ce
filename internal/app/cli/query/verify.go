package query

import (
	"context"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/client"
	"dcm/internal/app/cli/console"
	"dcm/internal/app/cli/nodemodel"
	"dcm/internal/app/plan"
	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
	"dcm/internal/frontends/status"
	"dcm/internal/frontends/status/gather"
	"dcm/internal/gpu/partition"
	"dcm/internal/text"
)

// deviation is a GPU that differs from the profile.
type deviation struct {
	Address partition.Address `json:"address"`
	Mode    partition.Shape   `json:"mode"`
	Want    partition.Shape   `json:"want"`
}

func VerifyCmd(h *host.Host, con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify [PROFILE] [--json]",
		Short: "Check whether the GPUs match a profile",
		Long: `Compare the GPUs with the profile; the default is the selected one. The exit status is 0
if they match, 2 if they do not, and 1 if the state cannot be determined.`,
		Args:              console.Args(cobra.MaximumNArgs(1)),
		ValidArgsFunction: nodemodel.ProfileNames(h),
	}
	asJSON := con.JsonFlag(cmd)
	cmd.RunE = func(c *cobra.Command, given []string) error { return verify(c.Context(), h, con, given, *asJSON) }
	return cmd
}

// Verification is the output of dcm verify --json.
type Verification struct {
	Profile     string          `json:"profile"`
	Matches     bool            `json:"matches"`
	GPUs        int             `json:"gpus"`
	Skipped     int             `json:"skipped"` // those of GPUs that the profile leaves alone
	Expected    status.Expected `json:"expected"`
	Differences []deviation     `json:"differences"`
}

func verify(ctx context.Context, h *host.Host, con *console.Console, given []string, asJSON bool) error {
	cfg, d, name, err := plan.Compare(ctx, h, client.FromDaemon(h), given...)
	if err != nil {
		return err
	}
	found := []deviation{}
	var there []string
	for _, g := range d.GPUs {
		there = append(there, string(g.Address))
		if want := d.Want.Shapes[g.Address]; !want.Same(g.Shape()) {
			found = append(found, deviation{g.Address, g.Shape(), want})
		}
	}
	o := Verification{Profile: name, GPUs: len(there), Skipped: len(d.Want.Skipped), Expected: gather.Expected(h, cfg, there), Differences: found}
	o.Matches = len(found) == 0 && len(there) >= o.Expected.GPUs
	if asJSON {
		err = con.Answer(o)
	} else {
		o.print(con)
	}
	if err == nil && !o.Matches {
		return exitcode.With(exitcode.Differs, nil)
	}
	return err
}

func (o Verification) print(con *console.Console) {
	if o.Matches {
		switch covered := o.GPUs - o.Skipped; {
		case o.Skipped > 0:
			con.Printf("Profile %s matches on %s. It leaves %s alone.\n", o.Profile, text.Count(covered, "GPU"), text.Count(o.Skipped, "GPU"))
		case covered == 1:
			con.Printf("The GPU matches profile %s.\n", o.Profile)
		default:
			con.Printf("All %d GPUs match profile %s.\n", covered, o.Profile)
		}
		return
	}
	if o.GPUs < o.Expected.GPUs {
		con.Println(o.Expected.Text(o.GPUs))
	}
	for _, f := range o.Differences {
		con.Printf("%s: mode differs from profile %s (found %s, want %s)\n", f.Address, o.Profile, withSettings(f.Mode), withSettings(f.Want))
	}
}

// withSettings returns the shape with the settings that are not the driver's default.
func withSettings(s partition.Shape) string {
	if s.MIG != nil {
		return s.String()
	}
	return gather.Shape(s).String()
}
