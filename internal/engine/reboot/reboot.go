// Package reboot decides whether the host may be rebooted for something that
// cannot be had otherwise, so that it never becomes a loop: once for each wish,
// written down before the reboot.
//
// It knows neither what is wished for nor how to reboot.
package reboot

import (
	"time"

	"dcm/internal/engine/statefile"
)

// apart is the least time between two reboots for the same wish, granted in
// between or not: what comes true and is undone again and again is a mistake
// somewhere else.
const apart = time.Hour

// Record is what is written down of a reboot.
type Record struct {
	Wish    string    `json:"wish"` // what for; equal texts are the same wish
	Why     string    `json:"why"`
	Boot    string    `json:"boot"` // the kernel's boot id when it was asked for
	Time    time.Time `json:"time"`
	Granted bool      `json:"granted,omitempty"` // it has come true since
}

// Refusal is why there is no reboot.
type Refusal struct{ text string }

func (r *Refusal) Error() string { return r.text }

// In is the record's file. What is written to it survives a loss of power.
func In(path string) statefile.File[Record] { return statefile.File[Record]{Path: path, Durable: true} }

// May returns nil if the host may be rebooted for the next wish, else a [Refusal].
// last is the record, which may be nil.
func May(last *Record, next Record) error {
	switch {
	case last == nil || last.Wish != next.Wish && last.Boot != next.Boot:
		return nil
	case last.Boot == next.Boot:
		return &Refusal{"a reboot was asked for at " + last.when() + " and has not happened yet"}
	case !last.Granted:
		return &Refusal{"the host was rebooted for it at " + last.when() + ", in vain, and is not rebooted again before the configuration changes"}
	case next.Time.Sub(last.Time) < apart:
		return &Refusal{"the host was rebooted for it at " + last.when() + ", which is too short ago"}
	}
	return nil
}

func (r *Record) when() string { return r.Time.UTC().Format(time.RFC3339) }

// Reached notes that a wish is true. A record of another one has done its duty and
// goes, so that a change of mind begins afresh.
func Reached(path, wish string) error {
	last, err := In(path).Read()
	switch {
	case last == nil && err == nil:
		return nil
	case err == nil && last.Wish == wish && last.Granted:
		return nil
	case err == nil && last.Wish == wish:
		last.Granted = true
		return In(path).Write(*last)
	}
	// Also one that cannot be read, which would refuse every reboot for ever.
	return In(path).Remove()
}
