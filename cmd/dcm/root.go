package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
)

func root(h *host) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dcm",
		Short: "Keep a server's GPUs in the selected partition profile",
		Long: `dcm keeps the GPUs of this host in the partition profile selected in
/etc/dcm/dcm.toml: at boot before any GPU client starts, and on every change.`,
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, given []string) error {
			if len(given) == 0 {
				return c.Help()
			}
			return unknown(c, given[0])
		},
	}
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return withCode(exitUsage, fmt.Errorf("%w; see '%s --help'", err, c.CommandPath()))
	})
	cmd.PersistentFlags().StringVar(&h.root, "root", "/", "look at the host tree below `DIR`")
	cobra.CheckErr(cmd.PersistentFlags().MarkHidden("root"))
	cmd.AddGroup(&cobra.Group{ID: "look", Title: "Look:"}, &cobra.Group{ID: "change", Title: "Change:"},
		&cobra.Group{ID: "config", Title: "Configuration:"}, &cobra.Group{ID: "unit", Title: "Run by systemd:"})
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			c.DisableFlagsInUseLine = true
			cmd.AddCommand(c)
		}
	}
	add("look", statusCmd(h), gpusCmd(h), planCmd(h), verifyCmd(h), holdersCmd(h), reportCmd(h))
	add("change", applyCmd(h), useCmd(h))
	add("config", profilesCmd(h), checkCmd(h), exportCmd(h), importCmd(h))
	add("unit", daemonCmd(h), oneshotCmd(h))
	cmd.AddCommand(versionCmd(h))
	return cmd
}

// unknown is the error of a command that there is not.
func unknown(c *cobra.Command, name string) error {
	hint := "see 'dcm --help'"
	if like := c.SuggestionsFor(name); len(like) > 0 {
		hint = fmt.Sprintf("did you mean %q?", like[0])
	}
	return withCode(exitUsage, fmt.Errorf("there is no command %q; %s", name, hint))
}

// args wraps a check of positional arguments so that a wrong number is a usage
// error.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, given []string) error {
		if err := check(c, given); err != nil {
			return withCode(exitUsage, fmt.Errorf("%w; see '%s --help'", err, c.CommandPath()))
		}
		return nil
	}
}

// jsonFlag adds --json to a command that answers.
func jsonFlag(c *cobra.Command) *bool {
	return c.Flags().Bool("json", false, "answer in JSON")
}

// answer writes v as JSON to standard output.
func (h *host) answer(v any) error {
	e := json.NewEncoder(h.out)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// profileNames completes the names of profiles.
func profileNames(h *host) cobra.CompletionFunc {
	return func(_ *cobra.Command, given []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		cfg, err := h.config()
		if err != nil || len(given) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return cfg.Names(), cobra.ShellCompDirectiveNoFileComp
	}
}
