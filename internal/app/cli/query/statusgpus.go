package query

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"dcm/internal/app/cli/console"
	"dcm/internal/frontends/status"
	"dcm/internal/sorting"
)

// gpuRow is a line of the table of GPUs: one or several GPUs that are alike, or a lost one.
type gpuRow struct {
	indices []int // none for a device that is not managed
	first   string
	last    string // address of the last GPU
	vendor  string
	model   string
	numa    int
	mode    string
	parts   int // partitions of all GPUs of the row
	held    int
	state   string // "yes" if the GPUs match the profile
	note    string // instead of the rest of the row
}

// gpus prints the GPUs. A lost GPU keeps its place and number.
func (v statusView) gpus() {
	rows := v.gpuRows()
	if len(rows) == 0 {
		return
	}
	vendors := vendorsOf(v.a)
	if !v.long {
		rows = merged(rows)
	}
	v.Println("")
	header := []string{"GPU", "ADDRESS", "MODEL", "MODE", "PARTITIONS", "SELECTED"}
	alike := !v.long && !slices.ContainsFunc(rows, func(r gpuRow) bool { return r.note == "" && r.state != "yes" && r.state != "-" })
	if alike {
		header = header[:5]
	}
	t := v.NewTable(header...).Optional("MODEL")
	for _, r := range rows {
		cells := []string{r.number(vendors), r.addresses(), cmp.Or(r.model, "-")}
		switch {
		case r.note != "":
			cells = append(cells, r.note)
		case alike:
			cells = append(cells, r.mode, v.partitions(r, true))
		default:
			cells = append(cells, r.mode, v.partitions(r, v.Width() == 0 || v.Width() >= wideTable), r.state)
		}
		t.Row(cells...)
	}
	t.Flush()
}

// maxBoxes is the number of partitions up to which each has a box of its own.
const maxBoxes = 8

// wideTable is the width of a terminal that has room for the drawings next to the column SELECTED.
const wideTable = 100

// partitions returns the number of partitions, and how many have a holder: if drawn with a box for each
// partition or, if there are more, with a bar.
func (v statusView) partitions(r gpuRow, drawn bool) string {
	if v.long {
		return fmt.Sprint(r.parts)
	}
	if r.parts == 0 {
		return "0"
	}
	held := fmt.Sprintf("%d of %d held", r.held, r.parts)
	switch {
	case !drawn:
		return held
	case r.parts <= maxBoxes:
		return strings.Repeat(markLease, r.held) + strings.Repeat(markFree, r.parts-r.held) + " " + held
	}
	return console.Bar(maxBoxes, float64(r.held)/float64(r.parts)) + " " + held
}

// vendorsOf returns the number of vendors of managed GPUs.
func vendorsOf(a status.Account) int {
	seen := make(map[string]bool)
	for _, g := range a.GPUs {
		if g.Managed() {
			seen[g.Vendor] = true
		}
	}
	return len(seen)
}

func (v statusView) gpuRows() []gpuRow {
	held := v.a.HeldPerGPU()
	var rows []gpuRow
	for _, g := range v.a.GPUs {
		r := gpuRow{indices: []int{g.Index}, first: g.Address, last: g.Address, vendor: g.Vendor, model: g.Model, numa: g.NUMA,
			mode: g.Mode.String(), parts: g.Partitions, held: held[g.Address], state: wanted(g)}
		if !g.Managed() {
			r.indices, r.note = nil, "not managed: "+g.Why
		}
		if cause := failure(v.a, g); cause != "" {
			r.state += "; " + v.Red("failed: "+cause)
		}
		rows = append(rows, r)
	}
	for _, l := range v.a.Expected.Lost {
		r := gpuRow{first: l.Address, last: l.Address, vendor: l.Vendor, model: l.Model, note: v.Red("missing")}
		if !l.Since.IsZero() {
			r.note = v.Red("missing since " + when(l.Since, v.now))
		}
		if l.Index >= 0 {
			r.indices = []int{l.Index}
		}
		rows = append(rows, r)
	}
	sorting.By(rows, func(a, b gpuRow) int { return strings.Compare(a.first, b.first) })
	return rows
}

// failure returns the cause if the last run has failed on the GPU, and the GPU has not the profile since; "" otherwise.
func failure(a status.Account, g status.GPU) string {
	if a.LastRun == nil || a.Running() || g.AsWanted() {
		return ""
	}
	for _, one := range a.LastRun.GPUs {
		if string(one.Address) == g.Address && one.Error != "" {
			return cause(one.Error)
		}
	}
	return ""
}

// cause returns the last part of an error's first clause: of "cannot set CPX on G: write F: input/output error; it now
// reads SPX" it is "input/output error".
func cause(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	text, _, _ = strings.Cut(text, ";")
	if at := strings.LastIndex(text, ": "); at >= 0 {
		text = text[at+len(": "):]
	}
	return text
}

// when returns a time of today without its date.
func when(t, now time.Time) string {
	t = t.Local()
	if t.Format(time.DateOnly) == now.Local().Format(time.DateOnly) {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}

// merged joins rows of GPUs that are alike and follow each other.
func merged(rows []gpuRow) []gpuRow {
	var out []gpuRow
	for _, r := range rows {
		if n := len(out) - 1; n >= 0 && out[n].like(r) {
			out[n].indices = append(slices.Clone(out[n].indices), r.indices...)
			out[n].last, out[n].parts, out[n].held = r.last, out[n].parts+r.parts, out[n].held+r.held
			continue
		}
		out = append(out, r)
	}
	return out
}

func (r gpuRow) like(o gpuRow) bool {
	managed := len(r.indices) > 0
	return managed == (len(o.indices) > 0) && (r.note == "" || !managed) && r.note == o.note && r.vendor == o.vendor && r.model == o.model && r.numa == o.numa && r.mode == o.mode && r.state == o.state
}

// number returns the numbers of the GPUs: "3", "0-3". On a host with several vendors they begin with
// the vendor.
func (r gpuRow) number(vendors int) string {
	if len(r.indices) == 0 {
		return "-"
	}
	s := fmt.Sprint(r.indices[0])
	if n := len(r.indices); n > 1 {
		s += fmt.Sprintf("-%d", r.indices[n-1])
	}
	if vendors > 1 {
		s = strings.ToUpper(r.vendor) + " " + s
	}
	return s
}

// addresses returns the first and the last address: "0000:05…65:00.0".
func (r gpuRow) addresses() string {
	if r.first == r.last {
		return r.first
	}
	domain, _, _ := strings.Cut(r.first, ":")
	return strings.TrimSuffix(r.first, ":00.0") + "…" + strings.TrimPrefix(r.last, domain+":")
}

func wanted(g status.GPU) string {
	s := "no, " + g.Want.String()
	switch {
	case g.Skipped:
		s = "skipped"
	case g.Want.String() == "":
		s = "-"
	case g.AsWanted():
		s = "yes"
	}
	if g.Left {
		s += "; in use"
	}
	if g.Rest != "" {
		s += "; set by leases, " + g.Rest + " without"
	}
	if g.Pending != "" {
		s += "; " + g.Pending + " pending"
	}
	return s
}
