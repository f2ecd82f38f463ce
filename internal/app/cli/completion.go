package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/placement"
)

// completeOptions adds the completions of option values to a command and all below it. An
// option of one name has the same values in each command.
func completeOptions(cmd *cobra.Command, h *host.Host) {
	for option, values := range map[string]cobra.CompletionFunc{
		"mode": func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return only(partitionModes(h))
		},
		"node":  completeNode,
		"place": cobra.FixedCompletions(strs(placement.Places()), cobra.ShellCompDirectiveNoFileComp),
		"profile": func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return only(console.Profiles(h))
		},
		"vendor": cobra.FixedCompletions([]string{"amd", "nvidia"}, cobra.ShellCompDirectiveNoFileComp),
	} {
		if cmd.LocalNonPersistentFlags().Lookup(option) != nil {
			cobra.CheckErr(cmd.RegisterFlagCompletionFunc(option, values))
		}
	}
	for _, c := range cmd.Commands() {
		completeOptions(c, h)
	}
}

func only(values []cobra.Completion) ([]cobra.Completion, cobra.ShellCompDirective) {
	return values, cobra.ShellCompDirectiveNoFileComp
}

// completeNode offers each model with the number of GPUs that its nodes usually have. Other
// numbers are accepted, too.
func completeNode(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var out []cobra.Completion
	for _, model := range partition.NodeModels() {
		out = append(out, model+"-8")
	}
	return only(out)
}

// partitionModes returns the modes of the partitions that are listed, or all of AMD if none are.
func partitionModes(h *host.Host) []cobra.Completion {
	var out []cobra.Completion
	if listed, err := runstate.ReadPartitions(h.Runtime()); err == nil && listed != nil {
		for _, part := range listed.Parts {
			_, mode, _ := strings.Cut(part.Kind, " ")
			mode, _, _ = strings.Cut(mode, "/")
			out = append(out, mode)
		}
	}
	if len(out) == 0 {
		return strs(partition.ComputeModes())
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func strs[S ~string](values []S) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}
