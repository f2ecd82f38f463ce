package query

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/client"
	"dcm/internal/app/cli/console"
	"dcm/internal/app/cli/nodemodel"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/exitcode"
	"dcm/internal/frontends/status"
	"dcm/internal/leases/lease"
	"dcm/internal/leases/placement"
	"dcm/internal/sorting"
	"dcm/internal/text"
)

func TopologyCmd(h *host.Host, con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "topology [--long | --svg | --json] [--node KIND [--profile PROFILE]]",
		Short: "Draw the partitions of the node, and their holders",
		Long: `Draw the node: a line for each NUMA node, with its GPUs and a mark for each partition.
The distances and the holders follow. With --long, list the partitions as a tree, and
the distance of each pair of GPUs. With --svg, print the drawing as a picture.`,
		Example: "  dcm topology --svg >topology.svg",
		Args:    console.Args(cobra.NoArgs),
	}
	asJSON := con.JsonFlag(cmd)
	long := cmd.Flags().Bool("long", false, "list the partitions as a tree, and each pair of GPUs")
	picture := cmd.Flags().Bool("svg", false, "print a picture in SVG")
	var s nodemodel.Node
	cmd.Flags().StringVar(&s.Model, "node", "", "draw a `KIND` of node, such as mi300x-8, or the FILE of a record, instead of this host")
	cmd.Flags().StringVar(&s.Profile, "profile", "", "with --node: its `PROFILE` (default: the selected one)")
	cmd.RunE = func(c *cobra.Command, _ []string) error {
		if s.Profile != "" && s.Model == "" {
			return exitcode.With(exitcode.Usage, errors.New("--profile requires --node"))
		}
		if *long && *asJSON {
			return exitcode.With(exitcode.Usage, errors.New("--long cannot be combined with --json"))
		}
		if *picture && (*long || *asJSON) {
			return exitcode.With(exitcode.Usage, errors.New("--svg cannot be combined with --long or --json"))
		}
		if *picture {
			return pictureOf(c.Context(), h, con, s)
		}
		return topology(c.Context(), h, con, s, *long, *asJSON)
	}
	return cmd
}

// place is a partition in the tree.
type place struct {
	Name    string   `json:"name"`
	GPU     string   `json:"gpu"`
	Domain  int      `json:"memory_domain"`
	NUMA    int      `json:"numa"`
	Hive    string   `json:"hive"` // "" for none
	Free    bool     `json:"free"`
	Holders []string `json:"holders"`
}

// way is the distance between two GPUs.
type way struct {
	From string `json:"from"`
	To   string `json:"to"`
	Cost int    `json:"cost"`
}

// pictureOf prints the picture of the node.
func pictureOf(ctx context.Context, h *host.Host, con *console.Console, s nodemodel.Node) error {
	book, err := allocations(ctx, h, s)
	if err == nil {
		_, err = con.Out.Write([]byte(topologySVG(book)))
	}
	return err
}

func allocations(ctx context.Context, h *host.Host, s nodemodel.Node) ([]lease.Allocation, error) {
	book, err := s.Allocations(ctx, h)
	if err != nil && s.Model == "" && withoutGPUs(client.Account(ctx, h)) {
		err = errors.New("no partitionable GPU found; see 'dcm gpus'")
	}
	return book, err
}

func topology(ctx context.Context, h *host.Host, con *console.Console, s nodemodel.Node, long, asJSON bool) error {
	book, err := allocations(ctx, h, s)
	if err != nil {
		return err
	}
	var free []freeSlots
	if s.Model == "" && mayHaveDynamic(h) {
		free = freeSlotsOf(client.Account(ctx, h))
	}
	if asJSON {
		places := make([]place, len(book))
		for i, p := range book {
			places[i] = place{p.Name, string(p.GPU), p.Domain, p.NUMA, hiveName(p.Hive), p.Free(), append([]string{}, p.Whose()...)}
		}
		return con.Answer(map[string]any{"partitions": places, "costs": append([]way{}, ways(book)...), "free_slots": append([]freeSlots{}, free...)})
	}
	if long {
		draw(con, book)
	} else {
		drawNode(con, book)
	}
	printFreeSlots(con, free)
	for _, gpu := range groupBy(book, func(p lease.Allocation) string { return string(p.GPU) }) {
		if gpu[0].Switched.IsMode() {
			con.Println(gpu[0].Switched.Describe())
		}
	}
	return nil
}

// mayHaveDynamic reports whether leases may divide GPUs. The status, which has the free slots, takes as long to
// gather as all else here.
func mayHaveDynamic(h *host.Host) bool {
	cfg, err := h.Effective()
	return err != nil || cfg == nil || len(cfg.Dynamic) > 0
}

// freeSlots are the free memory slots of a dynamic GPU.
type freeSlots struct {
	GPU     string `json:"gpu"`
	Slots   int    `json:"slots"`
	Longest int    `json:"longest_run"`
}

// printFreeSlots prints the free memory slots of the dynamic GPUs, those with as many in one line.
func printFreeSlots(con *console.Console, free []freeSlots) {
	for _, alike := range sorting.Groups(free, func(g freeSlots) [2]int { return [2]int{g.Slots, g.Longest} }) {
		first := alike[0]
		var gpus []string
		for _, g := range alike {
			gpus = append(gpus, g.GPU)
		}
		slots := text.Count(first.Slots, "free memory slot")
		if len(gpus) > 1 {
			slots += " each"
		}
		if first.Longest < first.Slots {
			slots += fmt.Sprintf(", at most %d in a row", first.Longest)
		}
		con.Labelled("Dynamic: ", strings.Join(gpus, ", ")+": "+slots)
	}
}

func freeSlotsOf(a status.Account) []freeSlots {
	var out []freeSlots
	for _, g := range a.GPUs {
		if g.Free != nil {
			out = append(out, freeSlots{g.Address, g.Free.Slots, g.Free.Longest})
		}
	}
	return out
}

// draw prints a line for each level of the tree that differs from the previous partition. The
// partitions are sorted by GPU, in PCI order.
func draw(con *console.Console, book []lease.Allocation) {
	var last *lease.Allocation
	for i := range book {
		p := &book[i]
		if last == nil || last.Hive != p.Hive || last.NUMA != p.NUMA {
			con.Println(con.Bold(where(p.Part)))
		}
		if last == nil || last.GPU != p.GPU {
			con.Printf("  %s\n", p.GPU)
		}
		if last == nil || last.GPU != p.GPU || last.Domain != p.Domain {
			con.Printf("    memory domain %d\n", p.Domain)
		}
		state := con.Green("free")
		if holders := p.Whose(); len(holders) > 0 {
			state = strings.Join(holders, ", ")
		} else if p.Switched.IsMode() {
			state = con.Green("free for --make " + p.Switched.Profile)
		}
		con.Printf("      %-16s %s\n", p.Name, state)
		last = p
	}
	drawMatrix(con, ways(book), firstPerGPU(book), shortNames(book))
}

func where(p runstate.Part) string {
	text := "no hive"
	if p.Hive != 0 {
		text = "hive " + hiveName(p.Hive)
	}
	if p.NUMA < 0 {
		return text
	}
	return fmt.Sprintf("%s, NUMA node %d", text, p.NUMA)
}

// firstPerGPU returns one partition of each GPU.
func firstPerGPU(book []lease.Allocation) []runstate.Part {
	var out []runstate.Part
	for _, p := range book {
		if len(out) == 0 || out[len(out)-1].GPU != p.GPU {
			out = append(out, p.Part)
		}
	}
	return out
}

func ways(book []lease.Allocation) []way {
	var out []way
	gpus := firstPerGPU(book)
	for i, a := range gpus {
		for _, b := range gpus[i+1:] {
			out = append(out, way{string(a.GPU), string(b.GPU), placement.Cost(a, b)})
		}
	}
	return out
}

func drawMatrix(con *console.Console, all []way, gpus []runstate.Part, name func(string) string) {
	if len(all) == 0 {
		return
	}
	con.Println("\nDistance between partitions of two GPUs (within a memory domain 1, within a GPU 13):")
	header := []string{""}
	for _, g := range gpus {
		header = append(header, name(string(g.GPU)))
	}
	t := con.NewTable(header...)
	for _, a := range gpus {
		row := []string{name(string(a.GPU))}
		for _, b := range gpus {
			cell := "-"
			if a.GPU != b.GPU {
				cell = fmt.Sprint(placement.Cost(a, b))
			}
			row = append(row, cell)
		}
		t.Row(row...)
	}
	t.Flush()
}
