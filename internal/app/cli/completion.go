package cli

import (
	"fmt"
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
	for option, values := range map[string]func() []cobra.Completion{
		"mode":    func() []cobra.Completion { return partitionModes(h) },
		"node":    nodeKinds,
		"place":   func() []cobra.Completion { return strs(placement.Places()) },
		"profile": func() []cobra.Completion { return console.Profiles(h) },
		"vendor":  func() []cobra.Completion { return []string{"amd", "nvidia"} },
	} {
		if cmd.Flags().Lookup(option) != nil {
			cobra.CheckErr(cmd.RegisterFlagCompletionFunc(option, func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
				return values(), cobra.ShellCompDirectiveNoFileComp
			}))
		}
	}
	for _, c := range cmd.Commands() {
		completeOptions(c, h)
	}
}

// nodeKinds returns a node of eight GPUs of each model. Other numbers are accepted, too.
func nodeKinds() []cobra.Completion {
	var out []cobra.Completion
	for _, model := range partition.NodeModels() {
		kind := model + "-8"
		gpus, err := partition.ParseNode(kind)
		if err != nil || len(gpus) == 0 {
			continue
		}
		out = append(out, cobra.CompletionWithDesc(kind, fmt.Sprintf("%d GPUs of %s", len(gpus), gpus[0].Vendor)))
	}
	return out
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
