package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"dcm/internal/report"
)

// table is aligned text with a header.
type table struct{ tab *tabwriter.Writer }

func newTable(h *host, w io.Writer, header ...string) *table {
	t := &table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	t.row(header...)
	return t
}

func (t *table) row(cells ...string) {
	fmt.Fprintln(t.tab, "  "+strings.Join(cells, "\t"))
}

func (t *table) flush() { t.tab.Flush() }

// lastRestart says what the last restart did to a client.
func lastRestart(c report.Client) string {
	switch {
	case !c.Back:
		return "was " + c.Before + ", not back"
	case c.Before == "active":
		return "restarted"
	}
	return "-"
}
