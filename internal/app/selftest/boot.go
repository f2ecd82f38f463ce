package selftest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Record is the state of the GPUs at the end of a self-test, for a self-test after the next
// boot.
type Record struct {
	Version int               `json:"version"`
	Boot    string            `json:"boot"` // the kernel's boot id
	Taken   time.Time         `json:"taken"`
	Modes   map[string]string `json:"modes"` // by address
}

// Boot is what a self-test knows of the current boot.
type Boot struct {
	ID    string
	Up    time.Time         // when the kernel started
	Found map[string]string // the modes before the first run of the boot, by address; nil if unknown
}

// Persistence reports which modes persisted from the record to this boot. powerOff says that
// the administrator removed the power in between, which the host cannot detect.
func Persistence(r *Record, b Boot, powerOff bool) Check {
	const what = "persistence of modes"
	switch {
	case r == nil:
		return newCheck("", what, NotSeen, "this is the first self-test; "+persistenceHint)
	case r.Boot == b.ID:
		return newCheck("", what, NotSeen, "the host has not been booted since the last self-test; "+persistenceHint)
	case b.Found == nil:
		return newCheck("", what, NotSeen, "the modes before the first run of this boot are unknown; run the self-test before another run of dcm-apply.service")
	}
	how := "a boot (with --power-was-off: a power-off)"
	if powerOff {
		how = "a power-off"
	}
	var out []string
	for _, gpu := range slices.Sorted(maps.Keys(r.Modes)) {
		out = appendDistinct(out, fmt.Sprintf("%s before, %s after", r.Modes[gpu], orMissing(b.Found[gpu])))
	}
	return newCheck("", what, Noted, fmt.Sprintf("after %s, down for %s at most: %s", how, b.Up.Sub(r.Taken).Round(time.Second), strings.Join(out, "; ")))
}

const persistenceHint = "dcm(1) describes at --power-was-off how to test which modes survive a power-off"

func orMissing(mode string) string {
	if mode == "" {
		return "missing"
	}
	return mode
}
