// Package reboot decides whether the host may be rebooted for something that
// cannot be had otherwise, so that it never becomes a loop: once for each wish,
// written down before the reboot.
//
// It knows neither what is wished for nor how to reboot.
package reboot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"dcm/internal/linux/atomicfile"
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

// Read returns the record, nil if there is none.
func Read(path string) (*Record, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read for what the host was rebooted: %w", err)
	}
	r := new(Record)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("cannot read for what the host was rebooted: %s: %w", path, err)
	}
	return r, nil
}

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

// Write puts the record on the disk. When it returns nil, the record outlives a
// loss of power.
func Write(path string, r Record) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = atomicfile.Write(path, append(text, '\n'), atomicfile.Options{Mode: 0o644, SyncDir: true})
	}
	if err != nil {
		return fmt.Errorf("cannot write down for what the host is to be rebooted: %w", err)
	}
	return nil
}

// Reached notes that a wish is true. A record of another one has done its duty and
// goes, so that a change of mind begins afresh.
func Reached(path, wish string) error {
	last, err := Read(path)
	switch {
	case last == nil && err == nil:
		return nil
	case err == nil && last.Wish == wish && last.Granted:
		return nil
	case err == nil && last.Wish == wish:
		last.Granted = true
		return Write(path, *last)
	}
	// Also one that cannot be read, which would refuse every reboot for ever.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot forget for what the host was rebooted: %w", err)
	}
	return nil
}
