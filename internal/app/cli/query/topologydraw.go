package query

import (
	"fmt"
	"slices"
	"strings"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/runstate"
	"dcm/internal/leases/lease"
	"dcm/internal/leases/placement"
	"dcm/internal/linux/unitname"
	"dcm/internal/text"
)

// The marks of a partition in the drawing.
const (
	markFree     = "□"
	markLease    = "■"
	markReserved = "▣"
	markOther    = "▨"
)

// drawNode draws the node in one screen: a line of GPUs for each NUMA node, with a mark for each partition.
func drawNode(con *console.Console, book []lease.Allocation) {
	if len(book) == 0 {
		con.Println("There are no partitions.")
		return
	}
	name := shortNames(book)
	groups := groupBy(book, func(p lease.Allocation) string { return hiveName(p.Hive) })
	for _, group := range groups {
		if hive := hiveName(group[0].Hive); hive != "" {
			con.Println(con.Bold("hive " + hive))
		} else if len(groups) > 1 {
			con.Println(con.Bold("no hive"))
		}
		for _, numa := range groupBy(group, func(p lease.Allocation) string { return fmt.Sprint(p.NUMA) }) {
			label := "NUMA " + fmt.Sprint(numa[0].NUMA)
			if numa[0].NUMA < 0 {
				label = "node"
			}
			drawLine(con, label, numa, name)
		}
	}
	con.Println(fmt.Sprintf("%s lease  %s reserved  %s other use  %s free  │ between memory domains", con.Yellow(markLease), con.Yellow(markReserved), con.Yellow(markOther), con.Green(markFree)))
	if cost := costs(book); cost != "" {
		con.Println("Distance: " + cost + " ('dcm topology --long' has every pair)")
	}
	drawHolders(con, book, name)
}

// hiveName returns the name of a hive, "" for none.
func hiveName(id uint64) string {
	if id == 0 {
		return ""
	}
	return fmt.Sprintf("%#x", id)
}

// groupBy groups partitions that follow each other by a key.
func groupBy(book []lease.Allocation, key func(lease.Allocation) string) [][]lease.Allocation {
	var out [][]lease.Allocation
	for i, p := range book {
		if i == 0 || key(book[i-1]) != key(p) {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], p)
	}
	return out
}

// shortNames returns a function that shortens the address of a GPU to its bus, "05", if no two GPUs have
// the same.
func shortNames(book []lease.Allocation) func(string) string {
	bus := func(address string) string {
		parts := strings.Split(address, ":")
		return parts[len(parts)/2]
	}
	seen := make(map[string]string)
	for _, p := range book {
		address := string(p.GPU)
		if other, ok := seen[bus(address)]; ok && other != address || strings.Count(address, ":") != 2 {
			return func(address string) string { return strings.TrimPrefix(address, "0000:") }
		}
		seen[bus(address)] = address
	}
	return bus
}

// drawLine draws GPUs after a label, in as many lines as the terminal needs.
func drawLine(con *console.Console, label string, book []lease.Allocation, name func(string) string) {
	const gap = "  "
	label = text.Pad("  "+label, 10)
	line := label
	for _, gpu := range groupBy(book, func(p lease.Allocation) string { return string(p.GPU) }) {
		drawn := name(string(gpu[0].GPU)) + " [" + cells(con, gpu) + "]"
		if width := con.Width(); width > 0 && text.Width(line) > len(label) && text.Width(line)+text.Width(drawn) > width {
			con.Println(strings.TrimRight(line, " "))
			line = strings.Repeat(" ", len(label))
		}
		line += drawn + gap
	}
	con.Println(strings.TrimRight(line, " "))
}

// cells returns the marks of a GPU's partitions.
func cells(con *console.Console, gpu []lease.Allocation) string {
	var b strings.Builder
	for i, p := range gpu {
		if i > 0 && gpu[i-1].Domain != p.Domain {
			b.WriteString("│")
		}
		mark := markOf(p)
		if mark == markFree {
			b.WriteString(con.Green(mark))
		} else {
			b.WriteString(con.Yellow(mark))
		}
	}
	return b.String()
}

func markOf(p lease.Allocation) string {
	isLease := func(unit string) bool { _, ok := unitname.ParseLease(unit); return ok }
	switch {
	case p.Free():
		return markFree
	case slices.ContainsFunc(p.Units, isLease):
		return markLease
	case p.For != "":
		return markReserved
	}
	return markOther
}

// costs returns the distances between two partitions, by what they share.
func costs(book []lease.Allocation) string {
	kinds := []string{"within a memory domain", "within a GPU", "within a NUMA node", "between NUMA nodes"}
	found := make([][]int, len(kinds))
	for i, a := range book {
		for _, b := range book[i+1:] {
			k := kindOf(a.Part, b.Part)
			if cost := placement.Cost(a.Part, b.Part); !slices.Contains(found[k], cost) {
				found[k] = append(found[k], cost)
			}
		}
	}
	var out []string
	for k, all := range found {
		switch {
		case len(all) == 1:
			out = append(out, fmt.Sprintf("%s %d", kinds[k], all[0]))
		case len(all) > 1:
			out = append(out, fmt.Sprintf("%s %d to %d", kinds[k], slices.Min(all), slices.Max(all)))
		}
	}
	return strings.Join(out, ", ")
}

func kindOf(a, b runstate.Part) int {
	switch {
	case a.GPU == b.GPU && a.Domain == b.Domain:
		return 0
	case a.GPU == b.GPU:
		return 1
	case a.NUMA == b.NUMA:
		return 2
	}
	return 3
}

// drawHolders lists the first holders with their partitions.
func drawHolders(con *console.Console, book []lease.Allocation, name func(string) string) {
	const most = 8
	var holders []string
	parts := make(map[string][]string)
	for _, p := range book {
		for _, holder := range p.Whose() {
			if parts[holder] == nil {
				holders = append(holders, holder)
			}
			parts[holder] = append(parts[holder], fmt.Sprintf("%s-%d", name(string(p.GPU)), p.Index))
		}
	}
	if len(holders) == 0 {
		return
	}
	con.Println("")
	t := con.NewTable("HOLDER", "PARTITIONS")
	for _, holder := range holders[:min(most, len(holders))] {
		t.Row(holder, text.Few(parts[holder]))
	}
	t.Flush()
	if more := len(holders) - most; more > 0 {
		con.Printf("  and %d more ('dcm partitions' lists them)\n", more)
	}
}
