// Package reboot decides whether the host may be rebooted for a profile that needs it. To prevent
// a reboot loop, it allows one reboot for each wish, and the wish is recorded before the reboot.
//
// It does not know what a wish means or how to reboot.
package reboot

import (
	"fmt"
	"time"

	"dcm/internal/linux/statefile"
)

// minInterval is the minimum time between two reboots for the same wish. If a wish is fulfilled
// and undone repeatedly, the cause is elsewhere.
const minInterval = time.Hour

// Record is the record of a reboot.
type Record struct {
	Wish    string    `json:"wish"` // the purpose; equal texts are the same wish
	Why     string    `json:"why"`
	Boot    string    `json:"boot"` // the kernel's boot id at the request
	Time    time.Time `json:"time"`
	Granted bool      `json:"granted,omitempty"` // the wish has been fulfilled since
}

// Refusal is why there is no reboot.
type Refusal struct{ text string }

func (r *Refusal) Error() string { return r.text }

// In returns the record's file. A written record survives a loss of power.
func In(path string) statefile.File[Record] { return statefile.File[Record]{Path: path, Durable: true} }

// May returns nil if the host may be rebooted for the next wish, else a [Refusal].
// last is the record, which may be nil.
func May(last *Record, next Record) error {
	switch {
	case last == nil || last.Wish != next.Wish && last.Boot != next.Boot:
		return nil
	case last.Boot == next.Boot:
		return &Refusal{"refusing to reboot: a reboot was requested at " + last.when() + " and has not happened yet"}
	case !last.Granted:
		return &Refusal{"refusing to reboot: the reboot at " + last.when() + " did not help; the next one is allowed after a change of the configuration"}
	case next.Time.Sub(last.Time) < minInterval:
		return &Refusal{fmt.Sprintf("refusing to reboot: the last reboot for this was at %s (want at least %s between two)", last.when(), minInterval)}
	}
	return nil
}

func (r *Record) when() string { return r.Time.UTC().Format(time.RFC3339) }

// Reached records that a wish is fulfilled. It removes the record of another wish, so that a
// later one may be rebooted for.
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
	// A record that cannot be read would prevent every reboot.
	return In(path).Remove()
}
