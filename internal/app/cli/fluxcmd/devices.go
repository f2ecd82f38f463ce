package fluxcmd

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/exitcode"
	"dcm/internal/gpu/partition"
)

func FluxDevicesCmd(h *host.Host, con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "devices IDS [--whole]",
		Short: "Print the device nodes of partitions (called by the mapper of Flux)",
		Long: `Print the device nodes that a user of these partitions opens, one per line. IDS are numbers
of partitions in the order of 'dcm partitions', such as 0-3,8. With --whole they are
numbers of GPUs in PCI order, and stand for all partitions of these GPUs.`,
		Args: console.Args(cobra.ExactArgs(1)),
	}
	whole := cmd.Flags().Bool("whole", false, "IDS are GPUs")
	cmd.RunE = func(_ *cobra.Command, given []string) error {
		list, err := runstate.ReadPartitions(h.Runtime())
		if err != nil {
			return err
		}
		if list == nil {
			return exitcode.With(exitcode.Transient, errors.New("the partitions are not known yet\nhint: systemctl start dcm-apply"))
		}
		nodes, err := nodesOf(list.Parts, given[0], *whole)
		for _, node := range nodes {
			con.Println(node)
		}
		return err
	}
	return cmd
}

// nodesOf returns the device nodes of the partitions, or GPUs, with these numbers.
func nodesOf(parts []runstate.Part, ids string, whole bool) ([]string, error) {
	groups := make([][]runstate.Part, 0, len(parts))
	var last partition.Address
	for _, p := range parts {
		if whole && len(groups) > 0 && p.GPU == last {
			groups[len(groups)-1] = append(groups[len(groups)-1], p)
			continue
		}
		last = p.GPU
		groups = append(groups, []runstate.Part{p})
	}
	numbers, err := parseIDs(ids, len(groups))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, n := range numbers {
		for _, p := range groups[n] {
			out = append(out, nodes(p)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// nodes returns the device nodes that a user of the partition opens.
func nodes(p runstate.Part) []string {
	out := []string{p.Render}
	if p.Card != "" {
		out = append(out, p.Card)
	}
	if len(p.Companions) == 0 {
		return append(out, "/dev/kfd")
	}
	return append(out, p.Companions...)
}

// parseIDs parses an idset of Flux: "0-3,8".
func parseIDs(text string, most int) (out []int, err error) {
	for part := range strings.SplitSeq(strings.Trim(text, "[]"), ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, wrong := strconv.Atoi(first)
		to, bad := strconv.Atoi(last)
		if wrong != nil || bad != nil || from < 0 || to < from || to >= most {
			return nil, exitcode.With(exitcode.Usage, fmt.Errorf("IDS: no such numbers (found %q, want 0-%d)", text, most-1))
		}
		for i := from; i <= to; i++ {
			out = append(out, i)
		}
	}
	return out, nil
}
