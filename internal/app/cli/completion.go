package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/nodemodel"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/placement"
	"dcm/internal/text"
)

// completeOptions adds the completions of option values to a command and all below it. An
// option of one name has the same values in each command.
func completeOptions(cmd *cobra.Command, h *host.Host) {
	const values, files = cobra.ShellCompDirectiveNoFileComp, cobra.ShellCompDirectiveDefault
	for option, c := range map[string]struct {
		list func(*cobra.Command) []cobra.Completion
		then cobra.ShellCompDirective
	}{
		"make":    {func(c *cobra.Command) []cobra.Completion { return nodemodel.MakeProfiles(c, h) }, values},
		"mode":    {func(*cobra.Command) []cobra.Completion { return partitionModes(h) }, values},
		"node":    {func(*cobra.Command) []cobra.Completion { return nodeKinds() }, files}, // or the file of a record
		"place":   {func(*cobra.Command) []cobra.Completion { return places() }, values},
		"profile": {func(c *cobra.Command) []cobra.Completion { return nodemodel.Profiles(c, h) }, values},
		"vendor":  {func(*cobra.Command) []cobra.Completion { return vendors() }, values},
	} {
		if cmd.Flags().Lookup(option) != nil {
			cobra.CheckErr(cmd.RegisterFlagCompletionFunc(option, func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
				return c.list(cmd), c.then
			}))
		}
	}
	for _, c := range cmd.Commands() {
		completeOptions(c, h)
	}
}

func places() []cobra.Completion {
	about := map[placement.Place]string{
		placement.Pack: "on as few GPUs as possible (default)", placement.Spread: "on many GPUs", placement.Link: "with the shortest distances",
	}
	var out []cobra.Completion
	for _, p := range placement.Places() {
		out = append(out, cobra.CompletionWithDesc(string(p), about[p]))
	}
	return out
}

func vendors() []cobra.Completion {
	return []cobra.Completion{cobra.CompletionWithDesc("amd", "partitions of AMD GPUs"), cobra.CompletionWithDesc("nvidia", "MIG instances and whole GPUs of NVIDIA")}
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
	count := make(map[string]int)
	if listed, err := runstate.ReadPartitions(h.Runtime()); err == nil && listed != nil {
		for _, part := range listed.Parts {
			_, mode, _ := strings.Cut(part.Kind, " ")
			mode, _, _ = strings.Cut(mode, "/")
			count[mode]++
		}
	}
	var out []cobra.Completion
	for _, mode := range slices.Sorted(maps.Keys(count)) {
		out = append(out, cobra.CompletionWithDesc(mode, text.Count(count[mode], "partition")+" of this host"))
	}
	if len(out) > 0 {
		return out
	}
	for _, mode := range partition.ComputeModes() {
		out = append(out, cobra.CompletionWithDesc(string(mode), "compute mode of AMD"))
	}
	return out
}
