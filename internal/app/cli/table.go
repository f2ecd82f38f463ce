package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// table is aligned text with a header.
type table struct{ tab *tabwriter.Writer }

func newTable(w io.Writer, header ...string) *table {
	t := &table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	t.row(header...)
	return t
}

func (t *table) row(cells ...string) {
	fmt.Fprintln(t.tab, "  "+strings.Join(cells, "\t"))
}

func (t *table) flush() { t.tab.Flush() }

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// plural is a number with its noun.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
