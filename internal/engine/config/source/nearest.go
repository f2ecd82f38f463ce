package source

import "strings"

// Nearest returns the name that is most similar to got; "" if none is similar, or if several are
// equally similar.
func Nearest(got string, names []string) string {
	best, tie := "", false
	least := len(got)/3 + 1 // one change in three letters is a typing error; more is another word
	for _, name := range names {
		if d := len(name) - len(got); d >= least || -d >= least || len(name) > 64 {
			continue
		}
		switch d := distance(strings.ToLower(got), strings.ToLower(name)); {
		case d < least:
			best, tie, least = name, false, d
		case d == least && best != "":
			tie = true
		}
	}
	if tie {
		return ""
	}
	return best
}

// distance counts the insertions, deletions, substitutions and swaps of
// neighbours between a and b (optimal string alignment).
func distance(a, b string) int {
	before, last, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(last[j]+1, next[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, last, next = last, next, before
	}
	return last[len(b)]
}
