package top

import (
	"fmt"
	"strings"

	"dcm/internal/frontends/status"
	"dcm/internal/text"
)

// unlimitedWidth is larger than the width of any cell.
const unlimitedWidth = 1 << 20

// Text returns the usage as a table of at most that width, in its natural width if it is 0.
func Text(u status.Usage, o Order, width int) string {
	all := columns()
	rows := sorted(u, o)
	if width > 0 {
		all = fitting(all, width)
	}
	for i := range all {
		for _, r := range rows {
			if width == 0 {
				all[i].width = max(all[i].width, text.Width(all[i].cell(r, unlimitedWidth)))
			}
		}
	}
	var b strings.Builder
	if width == 0 {
		width = unlimitedWidth
	}
	fmt.Fprintln(&b, text.Wrap(summary(u), width, 2))
	fmt.Fprintln(&b, strings.TrimRight(heading(all), " "))
	for _, r := range rows {
		fmt.Fprintln(&b, strings.TrimRight(cells(all, r), " "))
	}
	return b.String()
}

func heading(all []column) string {
	parts := make([]string, len(all))
	for i, c := range all {
		parts[i] = fit(c.title, c.width, c.right)
	}
	return strings.Join(parts, " ")
}

func cells(all []column, r row) string {
	parts := make([]string, len(all))
	for i, c := range all {
		parts[i] = fit(c.cell(r, c.width), c.width, c.right)
	}
	return strings.Join(parts, " ")
}
