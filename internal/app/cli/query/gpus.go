package query

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/client"
	"dcm/internal/app/cli/console"
	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/frontends/status"
	"dcm/internal/frontends/status/gather"
	"dcm/internal/gpu"
	"dcm/internal/text"
)

func GpusCmd(h *host.Host, con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "gpus [GPU] [--json]",
		Short: "List the GPUs, their modes and the modes they support",
		Long: `List the GPUs, their modes and the modes they support. GPU is the number or the address of
one, such as 3 or 0000:65:00.0.`,
		Args: console.Args(cobra.MaximumNArgs(1)),
	}
	asJSON := con.JsonFlag(cmd)
	cmd.RunE = func(c *cobra.Command, given []string) error { return gpus(c.Context(), h, con, given, *asJSON) }
	return cmd
}

func gpus(ctx context.Context, h *host.Host, con *console.Console, given []string, asJSON bool) error {
	// The inventory is shown even if the configuration has an error.
	cfg, err := h.Config()
	if err != nil {
		cfg = &config.Config{Backend: config.Sysfs}
	}
	a := client.Account(ctx, h)
	address, err := oneGPU(a, given)
	if err != nil {
		return err
	}
	if address != "" {
		a = only(a, address)
	}
	// Names and serial numbers are optional.
	if err := gather.AddNames(ctx, h, cfg, &a); err != nil {
		con.Warn(err.Error())
	}
	if asJSON {
		if err := con.Answer(a.GPUs); err != nil {
			return err
		}
		return client.WhyHidden(a, "gpus")
	}
	if len(a.GPUs)+len(a.Expected.Lost) == 0 {
		why := client.WhyHidden(a, "gpus")
		if why == nil {
			con.Println("No display or accelerator device found.")
		}
		return why
	}
	gpuTable(con, a).Flush()
	printLoose(con, a)
	for _, line := range sources(a.GPUs) {
		con.Println(line)
	}
	return client.WhyHidden(a, "gpus")
}

// only returns the status with one GPU, and its partitions.
func only(a status.Account, address string) status.Account {
	other := func(one string) bool { return one != address }
	a.GPUs = slices.DeleteFunc(slices.Clone(a.GPUs), func(g status.GPU) bool { return other(g.Address) })
	a.Parts = slices.DeleteFunc(slices.Clone(a.Parts), func(p status.Part) bool { return other(p.GPU) })
	a.Expected.Lost = slices.DeleteFunc(slices.Clone(a.Expected.Lost), func(l status.Lost) bool { return other(l.Address) })
	return a
}

// gpuTable returns the table of the GPUs. On a host with several vendors the numbers begin with the vendor.
func gpuTable(con *console.Console, a status.Account) *console.Table {
	t := con.NewTable("GPU", "ADDRESS", "MODEL", "SERIAL", "MODE", "PARTITIONS", "COMPUTE MODES", "MEMORY MODES", "NUMA", "RENDER NODES").
		Optional("RENDER NODES", "PARTITIONS", "NUMA", "SERIAL", "MEMORY MODES", "MODEL")
	vendors := vendorsOf(a)
	number := func(index int, vendor string) string {
		if index < 0 {
			return "-"
		}
		return gpuRow{indices: []int{index}, vendor: vendor}.number(vendors)
	}
	lost := a.Expected.Lost // sorted by address, as the GPUs are
	for _, g := range a.GPUs {
		for ; len(lost) > 0 && lost[0].Address < g.Address; lost = lost[1:] {
			lostRow(t, lost[0], number(lost[0].Index, lost[0].Vendor))
		}
		if !g.Managed() {
			t.Row("-", g.Address, g.Model, "-", "not managed: "+g.Why)
			continue
		}
		t.Row(number(g.Index, g.Vendor), g.Address, cmp.Or(g.Name, g.Model), console.OrDash(g.Serial), g.Mode.String(), fmt.Sprint(g.Partitions),
			console.OrDash(strings.Join(g.Offers.Compute, ",")), console.OrDash(strings.Join(g.Offers.Memory, ",")), text.NUMANode(g.NUMA), span(g.Nodes))
	}
	for _, l := range lost {
		lostRow(t, l, number(l.Index, l.Vendor))
	}
	return t
}

// lostRow adds the line of a missing GPU, which keeps its number.
func lostRow(t *console.Table, l status.Lost, number string) {
	since := "missing"
	if !l.Since.IsZero() {
		since += " since " + when(l.Since, time.Now())
	}
	t.Row(number, l.Address, cmp.Or(l.Model, "-"), "-", since)
}

// sources returns a line for each source with the facts that it supplied for any device.
func sources(all []status.GPU) []string {
	facts := make(map[string]map[string]bool)
	for _, g := range all {
		for fact, source := range g.Source {
			if facts[source] == nil {
				facts[source] = make(map[string]bool)
			}
			facts[source][factName(fact)] = true
		}
	}
	var lines []string
	for _, source := range slices.Sorted(maps.Keys(facts)) {
		from := source
		if source == gpu.Table {
			from = "dcm's table of models"
		}
		lines = append(lines, fmt.Sprintf("Values from %s: %s", from, strings.Join(slices.Sorted(maps.Keys(facts[source])), ", ")))
	}
	return lines
}

// factName returns the words for a key of a source.
func factName(key string) string {
	switch key {
	case "xcc":
		return "number of XCCs"
	case "uuid":
		return "UUID"
	}
	return strings.ReplaceAll(key, "_", " ")
}

// span shortens the render nodes of a GPU: "renderD128", "renderD128…135 (8)".
func span(nodes []string) string {
	short := func(n string) string { return strings.TrimPrefix(n, "/dev/dri/") }
	switch len(nodes) {
	case 0:
		return "-"
	case 1:
		return short(nodes[0])
	}
	last := strings.TrimPrefix(short(nodes[len(nodes)-1]), "renderD")
	return fmt.Sprintf("%s…%s (%d)", short(nodes[0]), last, len(nodes))
}
