package runstate

import (
	"slices"
	"time"
)

// AnnouncementTTL is how long a command may take from its note to the selection, while the daemon is idle.
const AnnouncementTTL = time.Minute

// Announce adds the notes that are not in the list yet.
func Announce(list []Announcement, notes []Note) []Announcement {
	for _, n := range notes {
		if !slices.ContainsFunc(list, func(a Announcement) bool { return n.Same(Note{Time: a.Time, Asked: a.Asked}) }) {
			list = append(list, Announcement{Time: n.Time, Asked: n.Asked, Selection: n.Selection})
		}
	}
	return list
}

// TakeUp returns the selection in effect when the configuration selects the profile: the last one that was
// announced for it, otherwise the one before. before is nil if there was none. In left, a selection that was taken
// up is nil, and those of commands that have called the daemon are removed.
func TakeUp(before *Selection, list []Announcement, profile string) (now *Selection, left []Announcement) {
	now = before
	if now == nil || now.Profile != profile {
		now = &Selection{Profile: profile}
	}
	for _, a := range list {
		if a.Selection != nil && a.Selection.Profile == profile {
			now, a.Selection = a.Selection, nil
		}
		if !a.Requested { // otherwise the selection is in effect, or another one has replaced it
			left = append(left, a)
		}
	}
	return now, left
}

// Older adds a time in which the daemon was idle, and removes the announcements that are too old.
func Older(list []Announcement, now, idleSince time.Time) (left []Announcement) {
	for _, a := range list {
		since := idleSince
		if a.Time.After(since) {
			since = a.Time
		}
		if a.Idle += max(0, now.Sub(since)); a.Idle <= AnnouncementTTL {
			left = append(left, a)
		}
	}
	return left
}
