package selftest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Record is how a self-test has left the GPUs, for one after the next boot.
type Record struct {
	Version int               `json:"version"`
	Boot    string            `json:"boot"` // the kernel's boot id
	Taken   time.Time         `json:"taken"`
	Modes   map[string]string `json:"modes"` // by address
}

// Boot is what the self-test of a later boot knows of how the host came up.
type Boot struct {
	ID    string
	Up    time.Time         // when it did
	Found map[string]string // how the first run of the boot has found the GPUs; nil where that is not known any more
}

// Outlived tells what has outlived the time between a record and a boot. asked says
// that the owner has had the power off meanwhile: the host cannot know.
func Outlived(r *Record, b Boot, powerOff bool) Check {
	const what = "what outlives a boot"
	switch {
	case r == nil:
		return Check{"", what, Unseen, "this is the first self-test; " + again}
	case r.Boot == b.ID:
		return Check{"", what, Unseen, "the host has not been booted since the last self-test; " + again}
	case b.Found == nil:
		return Check{"", what, Unseen, "how the driver came up is not known any more: look before another run of dcm-apply.service is made"}
	}
	how := "a boot, by what the owner has not said (--power-was-off)"
	if powerOff {
		how = "a power-off"
	}
	var out []string
	for _, gpu := range slices.Sorted(maps.Keys(r.Modes)) {
		out = once(out, fmt.Sprintf("%s before, %s after", r.Modes[gpu], orGone(b.Found[gpu])))
	}
	return Check{"", what, Noted, fmt.Sprintf("over %s, down for %s at most: %s", how, b.Up.Sub(r.Taken).Round(time.Second), strings.Join(out, "; "))}
}

const again = "to learn what outlives a power-off, select a profile for good whose modes the driver would not pick by itself, " +
	"run dcm selftest --read, take the power off, and run it again with --power-was-off"

func orGone(mode string) string {
	if mode == "" {
		return "not there"
	}
	return mode
}
