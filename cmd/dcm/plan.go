package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"dcm/internal/apply"
	"dcm/internal/config"
	"dcm/internal/partition"
)

// proposal is what `dcm plan` tells.
type proposal struct {
	Profile string           `json:"profile"`
	Steps   []partition.Step `json:"steps"`
	Clients []string         `json:"clients"` // the units that would be restarted
	Reload  bool             `json:"reload"`  // the driver would be reloaded: every GPU of the node is out of use
}

func planCmd(h *host) *cobra.Command {
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
	cmd.RunE = func(c *cobra.Command, given []string) error { return plan(c.Context(), h, given, *asJSON) }
	return cmd
}

func plan(ctx context.Context, h *host, given []string, asJSON bool) error {
	cfg, d, name, err := h.compare(ctx, given)
	if err != nil {
		return err
	}
	p := proposal{Profile: name, Steps: append([]partition.Step{}, d.Steps...), Clients: []string{}, Reload: d.Steps.Reloads()}
	if len(d.Steps) > 0 {
		if p.Clients, err = h.wouldRestart(ctx, h.clients(cfg)); err != nil {
			fmt.Fprintln(h.err, h.yellow("dcm: warning: ")+"cannot tell which clients would restart: "+err.Error())
		}
	}
	if asJSON {
		err = h.answer(p)
	} else {
		p.print(h)
	}
	if err == nil && len(p.Steps) > 0 {
		return differs()
	}
	return err
}

func (p proposal) print(h *host) {
	if len(p.Steps) == 0 {
		fmt.Fprintf(h.out, "Nothing to do: the GPUs are as profile %s says.\n", p.Profile)
		return
	}
	fmt.Fprintf(h.out, "To put profile %s on the GPUs:\n", p.Profile)
	for i, s := range p.Steps {
		fmt.Fprintf(h.out, "  %d. %s\n", i+1, s)
	}
	if len(p.Clients) == 0 {
		fmt.Fprintln(h.out, "No unit would be restarted.")
		return
	}
	fmt.Fprintln(h.out, "These units would be restarted around it:")
	for _, c := range p.Clients {
		fmt.Fprintln(h.out, "  "+c)
	}
}

// compare plans the named profile, or the selected one.
func (h *host) compare(ctx context.Context, given []string) (*config.Config, apply.Difference, string, error) {
	cfg, err := h.config()
	if err != nil {
		return nil, apply.Difference{}, "", err
	}
	profile, err := choose(cfg, given)
	if err != nil {
		return nil, apply.Difference{}, "", err
	}
	devices, err := h.node(cfg).Devices(ctx)
	if err != nil {
		return nil, apply.Difference{}, "", err
	}
	d, err := apply.Compare(devices, profile)
	return cfg, d, profile.Name, err
}

// choose returns the profile that a command line names, or the selected one.
func choose(cfg *config.Config, given []string) (partition.Profile, error) {
	if len(given) > 0 {
		return cfg.Lookup(given[0])
	}
	if cfg.Selected == "" {
		return partition.Profile{}, fmt.Errorf("no profile is selected: name one (%s), or set profile in /etc/dcm/dcm.toml", quoted(cfg.Names()))
	}
	return cfg.Profile, nil
}

// wouldRestart returns the units that a restart transaction would bounce now.
func (h *host) wouldRestart(ctx context.Context, clients []string) ([]string, error) {
	out := []string{}
	if len(clients) == 0 {
		return out, nil
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := h.dial(ctx)
	if err != nil {
		return out, err
	}
	defer conn.Close()
	units, err := conn.Units(ctx, clients)
	if err != nil {
		return out, err
	}
	for _, u := range units {
		if u.Active == "active" || u.Active == "activating" || u.Active == "reloading" {
			out = append(out, u.Name)
		}
	}
	more, err := conn.Dependents(ctx, out)
	return append(out, more...), err
}
