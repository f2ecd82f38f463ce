package lease

import (
	"fmt"
	"strings"

	"dcm/internal/gpu/partition"
	"dcm/internal/sorting"
	"dcm/internal/text"
)

// refusal is why a GPU cannot meet a request.
type refusal struct {
	gpu partition.Address
	err error
}

// refusedError is the error of a request that no GPU can meet. It wraps that of one of the GPUs.
type refusedError struct {
	text string
	err  error
}

func (e *refusedError) Error() string { return e.text }
func (e *refusedError) Unwrap() error { return e.err }

// joinRefusals returns each reason once, with its GPUs.
func joinRefusals(list []refusal) string {
	groups := sorting.Groups(list, func(r refusal) string { return r.err.Error() })
	if len(groups) == 1 && len(list) > 1 {
		return fmt.Sprintf("each of %d GPUs: %s", len(list), list[0].err)
	}
	const most = 4
	var out []string
	for _, alike := range groups[:min(most, len(groups))] {
		var gpus []string
		for _, r := range alike {
			gpus = append(gpus, string(r.gpu))
		}
		out = append(out, text.Few(gpus)+": "+alike[0].err.Error())
	}
	if more := len(groups) - most; more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(out, "; ")
}
