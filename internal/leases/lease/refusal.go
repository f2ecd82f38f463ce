package lease

import (
	"fmt"
	"strings"

	"dcm/internal/gpu/partition"
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
	var reasons []string
	gpus := make(map[string][]string)
	for _, r := range list {
		reason := r.err.Error()
		if gpus[reason] == nil {
			reasons = append(reasons, reason)
		}
		gpus[reason] = append(gpus[reason], string(r.gpu))
	}
	if len(reasons) == 1 && len(list) > 1 {
		return fmt.Sprintf("each of %d GPUs: %s", len(list), reasons[0])
	}
	const most = 4
	var out []string
	for _, reason := range reasons[:min(most, len(reasons))] {
		out = append(out, text.Few(gpus[reason])+": "+reason)
	}
	if more := len(reasons) - most; more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(out, "; ")
}
