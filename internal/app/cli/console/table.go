package console

import (
	"fmt"
	"slices"
	"strings"

	"dcm/internal/text"
)

// Table is aligned text with a header. On a terminal it is made to fit: columns are left out, the
// last column is wrapped, and then the widest ones are shortened.
type Table struct {
	con      *Console
	header   []string
	optional []string // columns that may be left out, the first one first
	rows     [][]string
}

// NewTable starts a table with its header.
func (c *Console) NewTable(header ...string) *Table { return &Table{con: c, header: header} }

// Optional names the columns that a narrow terminal does not show, the first one first. Columns
// without any value are left out before them.
func (t *Table) Optional(columns ...string) *Table {
	t.optional = columns
	return t
}

// Row adds a row. The last cell of a row that is shorter than the header reaches to the end of the
// line.
func (t *Table) Row(cells ...string) { t.rows = append(t.rows, cells) }

const (
	tableIndent = 2
	columnGap   = 2
	minColumn   = 6  // of a shortened column
	minWrapped  = 16 // of a wrapped last column
)

// Flush writes the table.
func (t *Table) Flush() {
	if width := t.con.Width(); width > 0 {
		t.fit(width)
	}
	widths := t.widths()
	if !slices.ContainsFunc(t.header, func(s string) bool { return s != "" }) {
		t.header = nil
	}
	for _, cells := range slices.Concat([][]string{t.header}, t.rows) {
		if cells != nil {
			t.write(cells, widths)
		}
	}
	t.rows = nil
}

// write writes a row. Its last cell is wrapped to the width of the terminal.
func (t *Table) write(cells []string, widths []int) {
	line := strings.Repeat(" ", tableIndent)
	for i, cell := range cells[:max(0, len(cells)-1)] {
		line += text.Pad(cell, widths[i]+columnGap)
	}
	if len(cells) > 0 {
		line = t.wrapped(line, cells[len(cells)-1])
	}
	fmt.Fprintln(t.con.Out, strings.TrimRight(line, " "))
}

// wrapped returns a line with its last cell, which is wrapped to the width of the terminal. A word that
// is too long for a line, such as a path, is shortened.
func (t *Table) wrapped(line, cell string) string {
	width, hang := t.con.Width(), text.Width(line)
	if width == 0 || hang+text.Width(cell) <= width {
		return line + cell
	}
	words := strings.Split(cell, " ")
	for i, word := range words {
		if !strings.Contains(word, "\x1b") {
			words[i] = text.CutMiddle(word, width-hang)
		}
	}
	return text.Wrap(line+strings.Join(words, " "), width, hang)
}

// widths returns the widths of the columns. The last cell of a shorter row does not count.
func (t *Table) widths() []int {
	widths := make([]int, len(t.header))
	for i, title := range t.header {
		widths[i] = text.Width(title)
	}
	for _, cells := range t.rows {
		for i, cell := range cells {
			if i < len(cells)-1 || len(cells) == len(t.header) {
				widths[i] = max(widths[i], text.Width(cell))
			}
		}
	}
	return widths
}

// fit makes the table at most width columns wide.
func (t *Table) fit(width int) {
	over := func(widths []int) int {
		sum := tableIndent - columnGap
		for _, w := range widths {
			sum += w + columnGap
		}
		return sum - width
	}
	for i := len(t.header) - 1; i > 0 && over(t.widths()) > 0; i-- {
		if t.blank(i) {
			t.remove(i)
		}
	}
	for _, title := range t.optional {
		if i := slices.Index(t.header, title); i >= 0 && over(t.widths()) > 0 {
			t.remove(i)
		}
	}
	widths := t.widths()
	last := len(widths) - 1
	if last < 0 {
		return
	}
	least := min(widths[last], max(t.longestWord(last), minWrapped))
	widths[last] = max(least, widths[last]-max(0, over(widths)))
	for over(widths) > 0 {
		widest := 0
		for i := range widths[:last] {
			if widths[i] > widths[widest] {
				widest = i
			}
		}
		if last == 0 || widths[widest] <= minColumn {
			break
		}
		widths[widest]--
	}
	t.shorten(widths[:last])
}

// longestWord returns the width of the longest word of a column, which is not wrapped, up to a third
// of the terminal.
func (t *Table) longestWord(column int) int {
	longest := 0
	for _, cells := range t.rows {
		if len(cells) == len(t.header) {
			for word := range strings.FieldsSeq(cells[column]) {
				longest = max(longest, text.Width(word))
			}
		}
	}
	return min(longest, t.con.Width()/3)
}

// shorten cuts the cells that are wider than their column.
func (t *Table) shorten(widths []int) {
	for _, cells := range slices.Concat([][]string{t.header}, t.rows) {
		for i := range cells {
			if i < len(widths) && i < len(cells)-1 && text.Width(cells[i]) > widths[i] {
				cells[i] = text.CutMiddle(cells[i], widths[i])
			}
		}
	}
}

// blank reports whether a column has no value.
func (t *Table) blank(column int) bool {
	return !slices.ContainsFunc(t.rows, func(cells []string) bool {
		return len(cells) == len(t.header) && cells[column] != "-" && cells[column] != ""
	})
}

// remove leaves a column out. A shorter row that ends before it stays as it is.
func (t *Table) remove(column int) {
	full := len(t.header)
	t.header = slices.Delete(slices.Clone(t.header), column, column+1)
	for i, cells := range t.rows {
		if len(cells) == full || column < len(cells)-1 {
			t.rows[i] = slices.Delete(slices.Clone(cells), column, column+1)
		}
	}
}

// OrDash returns s, or "-" if it is empty.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
