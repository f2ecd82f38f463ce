package config

import (
	"fmt"
	"time"

	"dcm/internal/engine/config/rule"
	"dcm/internal/engine/config/source"
	"dcm/internal/text"
)

// The keys of an unconfirmed selection in [SelectionFile].
const (
	KeyConfirmBy     = "confirm-by"     // the deadline
	KeyConfirmWithin = "confirm-within" // how long before the deadline it was selected
	KeyPermanent     = "permanent"      // whether a confirmation selects it permanently
	KeyOtherwise     = "otherwise"      // the selection until reboot that it replaced, if there was one
)

// The limits of the time to confirm a selection.
const (
	MinConfirmWindow = 5 * time.Second
	MaxConfirmWindow = 7 * 24 * time.Hour
)

// ConfirmWindows describes the accepted times to confirm a selection.
const ConfirmWindows = `a duration from 5s to 168h, such as "90s", "10m" or "1h"`

// ValidConfirmWindow reports whether d is within the limits.
func ValidConfirmWindow(d time.Duration) bool { return d >= MinConfirmWindow && d <= MaxConfirmWindow }

// Unconfirmed is a selection that ends at its deadline unless it is confirmed.
type Unconfirmed struct {
	Profile   string        // "" for none
	Deadline  time.Time     // by the wall clock
	Within    time.Duration // from the selection to the deadline
	Permanent bool          // a confirmation selects it permanently; otherwise until reboot
	Former    string        // is selected again at the deadline; "" for none

	Otherwise string // Former if it was selected until reboot, or None; "" if the persistent files select it
}

// unconfirmedOf returns the unconfirmed selection of a document, nil if it has none. lasting
// is the persistent selection. Problems in the document are reported by its rule.
func unconfirmedOf(root *source.Node, lasting string) *Unconfirmed {
	by, ok := root.At(KeyConfirmBy).Text()
	if !ok {
		return nil
	}
	profile, _ := root.At("profile").Text()
	u := &Unconfirmed{Profile: OrEmpty(profile), Former: lasting}
	within, _ := root.At(KeyConfirmWithin).Text()
	u.Deadline, _ = time.Parse(time.RFC3339Nano, by)
	u.Within, _ = time.ParseDuration(within)
	if n := root.At(KeyPermanent); n != nil {
		u.Permanent, _ = n.Value.(bool)
	}
	if u.Otherwise, ok = root.At(KeyOtherwise).Text(); ok {
		u.Former = OrEmpty(u.Otherwise)
	}
	return u
}

// expired reports whether the deadline has passed.
func (u *Unconfirmed) expired(now time.Time) bool { return u != nil && !now.Before(u.Deadline) }

// Why is the reason for the selection of Former after the deadline.
func (u *Unconfirmed) Why() string {
	return fmt.Sprintf("profile %s was not confirmed within %s", OrNone(u.Profile), text.Duration(u.Within))
}

// ended is the message about a selection whose deadline has passed.
func (u *Unconfirmed) ended() string { return u.Why() + "; dcm selects " + OrNone(u.Former) + " again" }

// withFormer returns the document of an expired selection as that of the selection until reboot before it, nil
// if there was none.
func withFormer(root *source.Node) *source.Node {
	table := source.Children(root)
	former := table[KeyOtherwise]
	if former == nil {
		return nil
	}
	table["profile"] = former
	return withoutConfirm(root)
}

// withoutConfirm removes the keys of an unconfirmed selection.
func withoutConfirm(root *source.Node) *source.Node {
	for _, key := range []string{KeyConfirmBy, KeyConfirmWithin, KeyPermanent, KeyOtherwise} {
		delete(source.Children(root), key)
	}
	return root
}

// deadline checks the text of a deadline.
func deadline(at string) *source.Fault {
	if _, err := time.Parse(time.RFC3339Nano, at); err == nil {
		return nil
	}
	return &source.Fault{Text: "not a time", Accepted: `a time such as "2026-01-31T12:00:00Z"`}
}

func confirmWindow() rule.Rule { return rule.Duration(ValidConfirmWindow, ConfirmWindows, "s") }
