package console

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// table is aligned text with a header.
type table struct{ tab *tabwriter.Writer }

// NewTable starts a table on w with its header.
func NewTable(w io.Writer, header ...string) *table {
	t := &table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	t.Row(header...)
	return t
}

// Row adds a row.
func (t *table) Row(cells ...string) {
	fmt.Fprintln(t.tab, "  "+strings.Join(cells, "\t"))
}

// Flush writes the table.
func (t *table) Flush() { t.tab.Flush() }

// OrDash returns s, or "-" if it is empty.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// Plural returns a number with its noun.
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
