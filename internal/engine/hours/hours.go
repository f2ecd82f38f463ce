// Package hours has times of a week, such as "Mon..Fri 08:00..18:00", in the time zone of the host. A
// calendar expression of systemd cannot name them: its ranges are between seconds, minutes or hours.
package hours

import (
	"slices"
	"strings"
	"time"
)

// Accepted describes the form of a text.
const Accepted = `days of the week, a time of day, or both, such as "Mon..Fri 08:00..18:00", "Sat,Sun" or "22:00..06:00"`

// dayInterval is the length of a day without a change of the clock.
const dayInterval = 24 * time.Hour

// Hours are times of a week. The zero value is always.
type Hours struct {
	text     string
	days     [7]bool // by time.Weekday, on which a period begins
	from, to time.Duration
}

// Period is one of the times.
type Period struct{ Begin, End time.Time }

// Parse reads a text. ok is false if it has not the form of [Accepted].
func Parse(text string) (h Hours, ok bool) {
	words := strings.Fields(text)
	if len(words) == 0 || len(words) > 2 {
		return Hours{}, false
	}
	h = Hours{text: strings.Join(words, " "), days: [7]bool{true, true, true, true, true, true, true}, to: dayInterval}
	if days, ok := parseDays(words[0]); ok {
		h.days, words = days, words[1:]
	}
	if len(words) == 0 {
		return h, true
	}
	if h.from, h.to, ok = parseTimes(words[0]); !ok || len(words) > 1 {
		return Hours{}, false
	}
	return h, true
}

// weekdays returns the names of the days, as systemd writes them, by time.Weekday.
func weekdays() []string { return []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"} }

// parseDays reads "Mon..Fri", "Sat,Sun" or "Mon".
func parseDays(text string) (days [7]bool, ok bool) {
	for part := range strings.SplitSeq(strings.ToLower(text), ",") {
		first, last, isRange := strings.Cut(part, "..")
		if !isRange {
			last = first
		}
		a, b := slices.Index(weekdays(), first), slices.Index(weekdays(), last)
		if a < 0 || b < 0 {
			return days, false
		}
		for d := a; ; d = (d + 1) % 7 {
			days[d] = true
			if d == b {
				break
			}
		}
	}
	return days, true
}

// parseTimes reads "08:00..18:00". A period whose end is not after its begin ends on the next day.
func parseTimes(text string) (from, to time.Duration, ok bool) {
	first, last, ok := strings.Cut(text, "..")
	if !ok {
		return 0, 0, false
	}
	from, ok = parseTime(first)
	if !ok || from == dayInterval {
		return 0, 0, false
	}
	if to, ok = parseTime(last); !ok {
		return 0, 0, false
	}
	if to <= from {
		to += dayInterval
	}
	return from, to, true
}

// parseTime reads a time of day, from 00:00 to 24:00.
func parseTime(text string) (time.Duration, bool) {
	if text == "24:00" {
		return dayInterval, true
	}
	t, err := time.Parse("15:04", text)
	return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute, err == nil
}

// String returns the text without superfluous spaces, "" for always.
func (h Hours) String() string { return h.text }

// Equal reports whether both have the same text and times.
func (h Hours) Equal(other Hours) bool { return h == other }

// At returns the period that contains a time. ok is false if there is none. Of [Hours] that are always, the
// end is zero.
func (h Hours) At(t time.Time) (p Period, ok bool) {
	if h.text == "" {
		return Period{}, true
	}
	for back := 1; back >= 0; back-- {
		if p, ok = h.on(t, -back); ok && !t.Before(p.Begin) && t.Before(p.End) {
			return p, true
		}
	}
	return Period{}, false
}

// Next returns the first period that begins after a time. ok is false if none does.
func (h Hours) Next(t time.Time) (p Period, ok bool) {
	if h.text == "" {
		return Period{}, false
	}
	for ahead := range 9 {
		if p, ok = h.on(t, ahead); ok && p.Begin.After(t) {
			return p, true
		}
	}
	return Period{}, false
}

// on returns the period that begins some days after the day of a time. The clock may change in it.
func (h Hours) on(t time.Time, days int) (p Period, ok bool) {
	y, m, d := t.Date()
	date := time.Date(y, m, d+days, 0, 0, 0, 0, t.Location())
	if !h.days[date.Weekday()] {
		return Period{}, false
	}
	at := func(since time.Duration) time.Time {
		return time.Date(y, m, d+days, 0, int(since/time.Minute), 0, 0, t.Location())
	}
	return Period{at(h.from), at(h.to)}, true
}
