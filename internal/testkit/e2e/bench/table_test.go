package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTable_Columns(t *testing.T) {
	ms := func(all ...int) (out []time.Duration) {
		for _, n := range all {
			out = append(out, time.Duration(n)*time.Millisecond)
		}
		return out
	}
	var tab table
	tab.compare("restart", []way{
		{name: "bare", took: ms(30, 10, 20, 50, 40)},
		{name: "dcm", target: 1.25, took: ms(36, 36, 36, 1, 99)},
	})
	tab.note("how long it takes")
	tab.heading("at rest")
	tab.fact("RSS", "7.0 MiB", "target: below 15 MiB")
	var b strings.Builder
	if err := tab.print(&b); err != nil {
		t.Fatal(err)
	}
	want := `
restart  median   [half]       ratio  to line above  target  5 rounds
  bare   30.0 ms  [20.0 40.0]  1.00   1.00           
  dcm    36.0 ms  [36.0 36.0]  1.20   1.20           1.25
  (how long it takes)

at rest
  RSS  7.0 MiB  target: below 15 MiB
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}
