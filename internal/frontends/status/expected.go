package status

import (
	"fmt"
	"strings"
	"time"

	"dcm/internal/engine/runstate"
)

// Expected is the expected number of GPUs.
type Expected struct {
	GPUs    int          `json:"gpus"` // 0 if unknown
	By      string       `json:"by"`   // "configuration", or "last success"
	Missing List[string] `json:"missing"`
	Lost    List[Lost]   `json:"lost"` // what is known of the missing GPUs
}

// Lost is a GPU that existed at the last successful apply and is missing now.
type Lost struct {
	Index   int       `json:"index"` // its number, which no other GPU gets; -1 if unknown
	Address string    `json:"address"`
	Vendor  string    `json:"vendor"`         // "" if unknown
	Model   string    `json:"model"`          // "" if unknown
	Since   time.Time `json:"since,omitzero"` // when dcm.service first noticed it; absent if it did not
}

// Text describes that n GPUs exist, fewer than expected.
func (e Expected) Text(n int) string {
	text := fmt.Sprintf("%d of %d GPUs", n, e.GPUs)
	if len(e.Missing) > 0 {
		text += ": missing " + strings.Join(e.Missing, ", ")
	}
	return text
}

func (e Expected) hint(n int) string {
	if e.By == ByConfiguration {
		return "see the kernel's log (journalctl -k); if that number is intended, set count in [gpu]"
	}
	return fmt.Sprintf("see the kernel's log (journalctl -k); if a GPU was removed, set count = %d in [gpu]", n)
}

// More returns a warning if there are more GPUs than configured, otherwise "".
func (e Expected) More(n int) string {
	if e.By != ByConfiguration || n <= e.GPUs {
		return ""
	}
	return fmt.Sprintf("more GPUs than count in [gpu] (found %d, want %d): the loss of one would not be noticed", n, e.GPUs)
}

// Expect returns the expected number of GPUs: the configured one or, if count is 0, the number at the
// last successful apply. known are the GPUs of that apply, there those that exist now. If there are
// too few, Expect lists the known ones that are missing.
func Expect(count int, known, there []string) Expected {
	e := Expected{GPUs: count, By: ByConfiguration}
	switch {
	case count == 0 && len(known) == 0:
		return Expected{}
	case count == 0:
		e = Expected{GPUs: len(known), By: ByLastSuccess}
	}
	e.Missing = runstate.MissingGPUs(e.GPUs, known, there)
	return e
}
