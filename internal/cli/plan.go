package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"dcm/internal/exit"
	"dcm/internal/host"
	"dcm/internal/partition"
)

// proposal is what `dcm plan` tells.
type proposal struct {
	Profile string           `json:"profile"`
	Steps   []partition.Step `json:"steps"`
	Clients []string         `json:"clients"` // the units that would be restarted
	Reload  bool             `json:"reload"`  // the driver would be reloaded: every GPU of the node is out of use
}

func planCmd(h *host.Host, con *Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plan [PROFILE] [--json]",
		Short: "Show what applying a profile would do",
		Long: `Show what applying the profile would do and which units would be restarted.
Nothing is changed. Without PROFILE, the selected one. The exit status is 0 if
there is nothing to do, 2 if there are changes, 1 if it cannot be applied.`,
		Args:              args(cobra.MaximumNArgs(1)),
		ValidArgsFunction: profileNames(h),
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(c *cobra.Command, given []string) error { return plan(c.Context(), h, con, given, *asJSON) }
	return cmd
}

func plan(ctx context.Context, h *host.Host, con *Console, given []string, asJSON bool) error {
	cfg, d, name, err := h.Compare(ctx, given...)
	if err != nil {
		return err
	}
	p := proposal{Profile: name, Steps: append([]partition.Step{}, d.Steps...), Clients: []string{}, Reload: d.Steps.Reloads()}
	if len(d.Steps) > 0 {
		if p.Clients, err = h.Restarted(ctx, h.Clients(cfg)); err != nil {
			fmt.Fprintln(con.err, con.yellow("dcm: warning: ")+"cannot tell which clients would restart: "+err.Error())
		}
	}
	if asJSON {
		err = con.answer(p)
	} else {
		p.print(con)
	}
	if err == nil && len(p.Steps) > 0 {
		return exit.With(exit.Differs, nil)
	}
	return err
}

func (p proposal) print(con *Console) {
	if len(p.Steps) == 0 {
		fmt.Fprintf(con.out, "Nothing to do: the GPUs are as profile %s says.\n", p.Profile)
		return
	}
	fmt.Fprintf(con.out, "To put profile %s on the GPUs:\n", p.Profile)
	for i, s := range p.Steps {
		fmt.Fprintf(con.out, "  %d. %s\n", i+1, s)
	}
	if len(p.Clients) == 0 {
		fmt.Fprintln(con.out, "No unit would be restarted.")
		return
	}
	fmt.Fprintln(con.out, "These units would be restarted around it:")
	for _, c := range p.Clients {
		fmt.Fprintln(con.out, "  "+c)
	}
}
