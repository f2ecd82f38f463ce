package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"
)

// table is the output.
type table struct{ lines [][]string }

// way is one method of a comparison with its durations. The methods are measured alternately, so
// that other load affects all of them equally.
type way struct {
	name   string
	target float64 // of the ratio to the way before; 0: none
	took   []time.Duration
}

// compare adds the methods of a comparison, the cheapest one first. It prints the median of the
// times with the quartiles in brackets, the ratio of the medians to the first method, and the
// ratio to the previous one, which has a target.
func (t *table) compare(what string, ways []way) {
	rounds := fmt.Sprintf("%d rounds", len(ways[0].took))
	t.lines = append(t.lines, nil, []string{what, "median", "[half]", "ratio", "to line above", "target", rounds})
	base := quantile(ways[0].took, 2)
	before := base
	for _, w := range ways {
		median := quantile(w.took, 2)
		half := fmt.Sprintf("[%s %s]", millis(quantile(w.took, 1)), millis(quantile(w.took, 3)))
		target := ""
		if w.target > 0 {
			target = strconv.FormatFloat(w.target, 'g', -1, 64)
		}
		t.lines = append(t.lines, []string{"  " + w.name, millis(median) + " ms", half,
			ratio(median, base), ratio(median, before), target})
		before = median
	}
}

// note adds an explanation of the figures above, without columns.
func (t *table) note(text string) { t.lines = append(t.lines, []string{"  (" + text + ")"}) }

func (t *table) heading(what string) { t.lines = append(t.lines, nil, []string{what}) }

func (t *table) fact(what, value, remark string) {
	t.lines = append(t.lines, []string{"  " + what, value, remark})
}

func (t *table) print(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, cells := range t.lines {
		for i, cell := range cells {
			if i > 0 {
				fmt.Fprint(tw, "\t")
			}
			fmt.Fprint(tw, cell)
		}
		fmt.Fprintln(tw)
	}
	return tw.Flush()
}

func ratio(a, b time.Duration) string { return fmt.Sprintf("%.2f", float64(a)/float64(b)) }

func millis(d time.Duration) string {
	return fmt.Sprintf("%.1f", float64(d)/float64(time.Millisecond))
}

// quantile returns the quartile with the number.
func quantile(all []time.Duration, quarters int) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)*quarters/4, len(sorted)-1)]
}
