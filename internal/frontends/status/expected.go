package status

import (
	"fmt"
	"slices"
	"strings"
)

// Text describes that only n GPUs exist.
func (e Expected) Text(n int) string {
	text := fmt.Sprintf("%d of %d GPUs", n, e.GPUs)
	if len(e.Missing) > 0 {
		text += ": not there is " + strings.Join(e.Missing, ", ")
	}
	return text
}

func (e Expected) hint(n int) string {
	if e.By == ByConfiguration {
		return "see the kernel's log (journalctl -k); if there are to be so few, set count under [gpu]"
	}
	return fmt.Sprintf("see the kernel's log (journalctl -k); if one was taken out, set count = %d under [gpu]", n)
}

// More describes that there are more GPUs than the configuration says, or returns "".
func (e Expected) More(n int) string {
	if e.By != ByConfiguration || n <= e.GPUs {
		return ""
	}
	return fmt.Sprintf("there are %d GPUs to manage, and count under [gpu] says %d: if one is lost this is not noticed", n, e.GPUs)
}

// Expect returns how many GPUs there should be: the configured number, or without one the
// number at the last success. It also lists the known GPUs that are missing now.
func Expect(count int, known, there []string) Expected {
	e := Expected{GPUs: count, By: ByConfiguration}
	switch {
	case count == 0 && len(known) == 0:
		return Expected{}
	case count == 0:
		e = Expected{GPUs: len(known), By: ByLastSuccess}
	}
	if len(there) >= e.GPUs {
		return e
	}
	for _, address := range known {
		if !slices.Contains(there, address) {
			e.Missing = append(e.Missing, address)
		}
	}
	return e
}
