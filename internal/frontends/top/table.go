package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"dcm/internal/frontends/status"
	"dcm/internal/linux/unitname"
	"dcm/internal/sanitize"
	"dcm/internal/text"
)

// column is a column of the table.
type column struct {
	title       string
	width       int
	right       bool
	optional    int // the order in which a narrow terminal leaves columns out, from 1; 0: never
	extraThirds int // its share of the additional width of the terminal, in thirds
	descending  bool
	cell        func(r row, width int) string
	cmp         func(a, b status.PartUse) int // descending: larger values come first
}

// row is a row of the table.
type row struct {
	status.PartUse
	leases []status.Lease // that hold the partition
	hidden bool           // the holders are not known
	unseen bool           // the processes are not known
	folded []string       // names of free partitions that are shown as this one; nil for one
}

// Columns returns the names of the columns by which the table can be sorted.
func Columns() []string {
	var out []string
	for _, c := range columns() {
		out = append(out, c.name())
	}
	return out
}

func (c column) name() string { return strings.ToLower(strings.TrimSuffix(c.title, "%")) }

// fitting returns the columns that fit the width, without the optional ones that do not. Additional width
// is given to some of them.
func fitting(all []column, width int) []column {
	total := func() int {
		sum := len(all) - 1
		for _, c := range all {
			sum += c.width
		}
		return sum
	}
	for n := 1; n <= len(columns()) && total() > width; n++ {
		all = slices.DeleteFunc(all, func(c column) bool { return c.optional == n })
	}
	thirds := 0
	for _, c := range all {
		thirds += c.extraThirds
	}
	for i, extra := 0, max(0, width-total()); i < len(all); i++ {
		all[i].width += extra * all[i].extraThirds / max(1, thirds)
	}
	return all
}

// columns returns the columns with their minimum widths.
func columns() []column {
	byText := func(of func(status.PartUse) string) func(a, b status.PartUse) int {
		return func(a, b status.PartUse) int { return strings.Compare(of(a), of(b)) }
	}
	return []column{
		{title: "PARTITION", width: 14, cell: name, cmp: func(a, b status.PartUse) int { return 0 }},
		{title: "MODE", width: 8, optional: 2, cell: func(r row, _ int) string { return r.Mode }, cmp: byText(func(p status.PartUse) string { return p.Mode })},
		{title: "NUMA", width: 4, optional: 1, right: true, cell: numa, cmp: func(a, b status.PartUse) int { return cmp.Compare(a.NUMA, b.NUMA) }},
		{title: "USED", width: 6, right: true, descending: true, cell: used, cmp: func(a, b status.PartUse) int { return cmp.Compare(orMinusOne(a.Used), orMinusOne(b.Used)) }},
		{title: "SIZE", width: 6, optional: 4, right: true, descending: true, cell: size, cmp: func(a, b status.PartUse) int { return cmp.Compare(a.Memory, b.Memory) }},
		{title: "BUSY%", width: 5, right: true, descending: true, cell: busy, cmp: func(a, b status.PartUse) int { return cmp.Compare(orMinusOne(a.Busy), orMinusOne(b.Busy)) }},
		{title: "USER", width: 8, optional: 5, cell: user, cmp: func(a, b status.PartUse) int {
			return compareEmptyLast(strings.Join(users(a), ","), strings.Join(users(b), ","))
		}},
		{title: "HOLDER", width: 14, extraThirds: 2, cell: holder, cmp: func(a, b status.PartUse) int {
			return compareEmptyLast(strings.Join(a.Holders, ","), strings.Join(b.Holders, ","))
		}},
		{title: "COMMAND", width: 12, extraThirds: 1, cell: command, cmp: func(a, b status.PartUse) int {
			return compareEmptyLast(strings.Join(commands(a), ","), strings.Join(commands(b), ","))
		}},
		{title: "PIDS", width: 7, optional: 3, extraThirds: 1, cell: pids, cmp: func(a, b status.PartUse) int { return cmp.Compare(len(b.Processes), len(a.Processes)) }},
	}
}

// compareEmptyLast orders texts with the empty one last.
func compareEmptyLast(a, b string) int {
	if (a == "") != (b == "") {
		return cmp.Compare(len(b), len(a))
	}
	return strings.Compare(a, b)
}

// orMinusOne returns -1 for an unknown value, which is less than any known one.
func orMinusOne[T uint64 | float64](v *T) float64 {
	if v == nil {
		return -1
	}
	return float64(*v)
}

// unknown is shown for a value that cannot be read.
const unknown = "-"

// name returns the name of the partition, without the usual PCI domain if it does not fit.
func name(r row, width int) string {
	if text.Width(r.Name) > width {
		return strings.TrimPrefix(r.Name, "0000:")
	}
	return r.Name
}

func numa(r row, _ int) string { return text.NUMANode(r.NUMA) }

func used(r row, _ int) string {
	if r.Used == nil {
		return unknown
	}
	return formatBytes(*r.Used)
}

func size(r row, _ int) string {
	if r.Memory == 0 {
		return unknown
	}
	return formatBytes(r.Memory)
}

func busy(r row, _ int) string {
	if r.Busy == nil {
		return unknown
	}
	return fmt.Sprintf("%.0f", *r.Busy)
}

// users returns the users of the partition's processes.
func users(p status.PartUse) []string {
	return distinct(p, func(process status.Process) string { return process.User })
}

// user returns the users of the processes, or of the leases if no process uses the partition yet.
func user(r row, width int) string {
	all := users(r.PartUse)
	for _, l := range r.leases {
		if !slices.Contains(all, l.User) {
			all = append(all, l.User)
		}
	}
	return fitList(all, width, r.unseen, "")
}

// commands returns the commands of the partition's processes.
func commands(p status.PartUse) []string {
	return distinct(p, func(process status.Process) string { return process.Command })
}

// distinct returns the values of a property of the partition's processes, each once.
func distinct(p status.PartUse, property func(status.Process) string) []string {
	var all []string
	for _, process := range p.Processes {
		if value := property(process); value != "" && !slices.Contains(all, value) {
			all = append(all, value)
		}
	}
	return all
}

// command returns the commands of the processes, or of the leases if no process uses the partition yet.
func command(r row, width int) string {
	all := commands(r.PartUse)
	for _, l := range r.leases {
		if len(all) == 0 && l.Command != "" {
			all = append(all, l.Command)
		}
	}
	return fitList(all, width, r.unseen, "")
}

// holder returns the holders. The unit of a lease is shortened to its identifier.
func holder(r row, width int) string {
	all := slices.Clone(r.Holders)
	for i, name := range all {
		if lease, ok := unitname.ParseLease(name); ok {
			all[i] = "lease " + lease.ID
		} else if reservation, ok := strings.CutPrefix(name, "reservation "); ok {
			all[i] = "for " + reservation
		}
	}
	return fitList(all, width, r.hidden, "free")
}

func pids(r row, width int) string {
	var all []string
	for _, p := range r.Processes {
		all = append(all, fmt.Sprint(p.PID))
	}
	return fitList(all, width, r.unseen, "")
}

// fitList returns as many items as fit into the width, and the number of the others, as "a,b+3". For an
// empty list it returns none or, if hidden, that the items are unknown.
func fitList(all []string, width int, hidden bool, none string) string {
	switch {
	case len(all) == 0 && hidden:
		return unknown
	case len(all) == 0:
		return none
	}
	for n := len(all); n > 0; n-- {
		shown, more := sanitize.Text(strings.Join(all[:n], ",")), ""
		if left := len(all) - n; left > 0 {
			more = fmt.Sprintf("+%d", left)
		}
		if n == 1 && text.Width(shown)+len(more) > width {
			return text.CutMiddle(shown, width-len(more)) + more
		}
		if text.Width(shown)+len(more) <= width {
			return shown + more
		}
	}
	return ""
}

// summary returns the first line, with the totals.
func summary(u status.Usage) string {
	held, working := 0, 0
	var used, size uint64
	known := true
	for _, p := range u.Parts {
		if len(p.Holders) > 0 {
			held++
		}
		if len(p.Processes) > 0 {
			working++
		}
		size += p.Memory
		if p.Used != nil {
			used += *p.Used
		} else {
			known = false
		}
	}
	line := fmt.Sprintf("dcm top - %s  %s", u.Taken.Format("15:04:05"), text.Count(len(u.Parts), "partition"))
	if len(u.Parts) == 0 {
		return line + ": dcm gpus shows the GPUs of this host"
	}
	if u.Why(status.PartHolders) == "" {
		line += fmt.Sprintf(", %d held", held)
	}
	if u.Why(status.PartProcesses) == "" {
		line += fmt.Sprintf(", %d with processes", working)
	}
	if known && size > 0 {
		line += fmt.Sprintf(", %s of %s used", formatBytes(used), formatBytes(size))
	}
	return line
}
