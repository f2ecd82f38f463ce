package main

import (
	"fmt"
	"strings"
)

// gpu is a GPU of eight dies with its modes from sysfs.
type gpu struct{ address, compute, memory string }

const dies = 8

// parts returns the number of partitions of a mode.
var parts = map[string]int{"SPX": 1, "DPX": 2, "QPX": 4, "CPX": 8, "NPS1": 1, "NPS2": 2, "NPS4": 4, "NPS8": 8}

// picture draws each GPU before and after the change.
func picture(before, after []gpu) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-14s%-40s%s\n", "", "before", "after")
	for i := range min(len(before), len(after)) {
		fmt.Fprintf(&b, "%-14s%-40s%s\n", before[i].address, before[i].drawn(), after[i].drawn())
	}
	b.WriteString("\n: between two partitions, | also between two memory domains\n")
	return b.String()
}

// drawn returns a bar with a mark between dies of different partitions.
func (g gpu) drawn() string {
	var b strings.Builder
	for die := range dies {
		switch {
		case die == 0:
			b.WriteString("[")
		case die*parts[g.memory]%dies == 0:
			b.WriteString("|")
		case die*parts[g.compute]%dies == 0:
			b.WriteString(":")
		default:
			b.WriteString(" ")
		}
		b.WriteString("  ")
	}
	return b.String() + "]  " + g.compute + "/" + g.memory
}
