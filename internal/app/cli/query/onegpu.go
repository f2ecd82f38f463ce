package query

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"dcm/internal/exitcode"
	"dcm/internal/frontends/status"
	"dcm/internal/sanitize"
	"dcm/internal/text"
)

// oneGPU returns the address of the GPU that the argument of a command names by its number or address; "" without an
// argument. A missing GPU keeps its number.
func oneGPU(a status.Account, given []string) (string, error) {
	if len(given) == 0 {
		return "", nil
	}
	type numbered struct {
		index   int
		address string
	}
	var all []numbered
	for _, g := range a.GPUs {
		if g.Managed() {
			all = append(all, numbered{g.Index, g.Address})
		}
	}
	for _, l := range a.Expected.Lost {
		all = append(all, numbered{l.Index, l.Address})
	}
	var found []string
	last := 0
	for _, g := range all {
		last = max(last, g.index)
		if g.address == strings.ToLower(given[0]) || strings.TrimPrefix(g.address, "0000:") == strings.ToLower(given[0]) || strconv.Itoa(g.index) == given[0] {
			found = append(found, g.address)
		}
	}
	name := sanitize.Text(given[0])
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return "", exitcode.With(exitcode.Usage, fmt.Errorf("GPU %s: several GPUs have this number: %s\nhint: give the address", name, strings.Join(found, ", ")))
	case len(all) == 0:
		return "", exitcode.With(exitcode.Usage, fmt.Errorf("GPU %s: no such GPU: this host has no partitionable GPU; see 'dcm gpus'", name))
	}
	numbers := cmp.Or(map[bool]string{true: "number 0"}[last == 0], fmt.Sprintf("numbers 0 to %d", last))
	return "", exitcode.With(exitcode.Usage, fmt.Errorf("GPU %s: no such GPU: this host has %s, %s\nhint: 'dcm gpus' lists their numbers and addresses", name, text.Count(len(all), "GPU"), numbers))
}
