package top

import (
	"slices"

	"dcm/internal/frontends/status"
	"dcm/internal/sorting"
	"dcm/internal/text"
)

// Order is which rows the table has, in which order.
type Order struct {
	By      string // a name of [Columns]
	Reverse bool
	Each    bool // each free partition has a row of its own
}

// column returns the column of the order, the first one if there is none of that name.
func (o Order) column() column { return columns()[max(0, slices.Index(Columns(), o.By))] }

// sorted returns the rows in an order. Those with equal values keep the order of the GPUs.
func sorted(u status.Usage, o Order) []row {
	rows := make([]row, len(u.Parts))
	for i, p := range u.Parts {
		rows[i] = row{PartUse: p, hidden: u.Why(status.PartHolders) != "", unseen: u.Why(status.PartProcesses) != ""}
		for _, l := range u.Leases {
			if slices.Contains(p.Holders, l.Lease) {
				rows[i].leases = append(rows[i].leases, l)
			}
		}
	}
	if !o.Each {
		rows = folded(rows)
	}
	by := o.column()
	sorting.By(rows, func(a, b row) int {
		if by.descending {
			return by.cmp(b.PartUse, a.PartUse)
		}
		return by.cmp(a.PartUse, b.PartUse)
	})
	if o.Reverse {
		slices.Reverse(rows)
	}
	return rows
}

// folded joins free partitions of one GPU that nothing uses and that follow each other, so that the others are found.
// Such a row has the sums of its partitions.
func folded(rows []row) []row {
	var out []row
	for _, r := range rows {
		n := len(out) - 1
		if n < 0 || !out[n].idle() || !r.idle() || out[n].GPU != r.GPU || out[n].Mode != r.Mode || (out[n].Busy == nil) != (r.Busy == nil) || (out[n].Used == nil) != (r.Used == nil) {
			out = append(out, r)
			continue
		}
		if out[n].folded == nil {
			out[n].folded = []string{out[n].Name}
		}
		out[n].folded = append(out[n].folded, r.Name)
		out[n].Name = text.Partitions(out[n].folded)
		out[n].Memory += r.Memory
	}
	return out
}

// idle reports whether the partition is known to be free and unused.
func (r row) idle() bool {
	unused := (r.Used == nil || *r.Used == 0) && (r.Busy == nil || *r.Busy == 0)
	return unused && !r.hidden && !r.unseen && len(r.Holders) == 0 && len(r.Processes) == 0
}
