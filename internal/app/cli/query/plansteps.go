package query

import (
	"fmt"
	"strings"

	"dcm/internal/gpu/partition"
	"dcm/internal/text"
)

// stepTexts describes steps in order. Steps that follow each other and differ only in the GPU share a
// text.
func stepTexts(steps []partition.Step) []string {
	var out []string
	reloaded := false
	for i := 0; i < len(steps); {
		s := steps[i]
		what := s.String()
		gpus := []string{string(s.GPU)}
		for i++; i < len(steps) && sameButGPU(s, steps[i]); i++ {
			gpus = append(gpus, string(steps[i].GPU))
		}
		if len(gpus) > 1 {
			what = strings.ReplaceAll(what, string(s.GPU), text.Count(len(gpus), "GPU")) + ": " + text.Few(gpus)
		}
		if reloaded && s.Kind == partition.SwitchCompute {
			what += fmt.Sprintf(" (%s is the mode after the reload)", s.From)
		}
		reloaded = reloaded || s.Kind == partition.ReloadDriver
		out = append(out, what)
	}
	return out
}

// sameButGPU reports whether two steps are the same for two GPUs.
func sameButGPU(a, b partition.Step) bool {
	without := func(s partition.Step) string { return strings.ReplaceAll(s.String(), string(s.GPU), "GPU") }
	return a.Kind == b.Kind && a.GPU != "" && b.GPU != "" && a.Kind != partition.RequestMemory && without(a) == without(b)
}
