package histories

import "slices"

// minimise returns the shortest history that it finds and that still fails, with the number of histories that
// it played. It leaves out actions and features of the host, first many of them, then one by one.
func minimise(s script, fails func(script) bool) (shortest script, played int) {
	try := func(list []string, with func([]string) script) []string {
		for size := max(len(list)/2, 1); ; size /= 2 {
			for from := 0; from < len(list); {
				less := slices.Delete(slices.Clone(list), from, min(from+size, len(list)))
				if played++; fails(with(less)) {
					list = less
				} else {
					from += size
				}
			}
			if size <= 1 {
				return list
			}
		}
	}
	for before := -1; before != len(s.actions)+len(s.host); {
		before = len(s.actions) + len(s.host)
		s.actions = try(s.actions, func(l []string) script { return script{s.seed, s.host, l} })
		s.host = try(s.host, func(l []string) script { return script{s.seed, l, s.actions} })
	}
	return s, played
}
