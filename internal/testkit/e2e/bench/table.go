package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"
)

// table is what is printed in the end.
type table struct{ lines [][]string }

// way is one way of doing a thing, with how long it took each time. The ways of
// one thing are gone in turn, so that what else the machine does hits all alike.
type way struct {
	name   string
	target float64 // of the ratio to the way before; 0: none
	took   []time.Duration
}

// compare adds the ways of doing a thing, the least that it can cost first. Of the
// times it shows the median and, in brackets, the middle half; of the medians the
// ratio to the first way, and to the one before, which the target is for.
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

// note says how the figures above come about. It is not set in columns.
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

// quantile returns the value below which so many quarters of all are.
func quantile(all []time.Duration, quarters int) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)*quarters/4, len(sorted)-1)]
}
