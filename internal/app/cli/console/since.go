package console

import (
	"fmt"
	"strings"
	"time"
)

// ParseSince parses the value of --since as journalctl(1) does: a date, a date with a time, a time of today, "today",
// "yesterday", or a duration before now such as "90m", "12h", "2d" and "1w". An empty text is the zero time.
func ParseSince(text string, now time.Time) (time.Time, error) {
	midnight := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
	switch text {
	case "":
		return time.Time{}, nil
	case "today":
		return midnight, nil
	case "yesterday":
		return midnight.AddDate(0, 0, -1), nil
	}
	for _, layout := range []string{time.DateOnly, time.DateTime, "2006-01-02 15:04", time.RFC3339} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, nil
		}
	}
	for _, layout := range []string{time.TimeOnly, "15:04"} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return midnight.Add(time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute + time.Duration(t.Second())*time.Second), nil
		}
	}
	if ago, ok := before(strings.TrimPrefix(text, "-")); ok {
		return now.Add(-ago), nil
	}
	return time.Time{}, fmt.Errorf("--since: not a time (found %q, want a date such as 2026-11-01, \"2026-11-01 12:00\", 12:00, today, yesterday, or a duration such as 12h or 2d)", text)
}

// before parses a duration, in which d is a day and w a week.
func before(text string) (time.Duration, bool) {
	for unit, length := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		if number, ok := strings.CutSuffix(text, unit); ok {
			hours, err := time.ParseDuration(number + "h")
			return hours * time.Duration(length/time.Hour), err == nil && hours > 0
		}
	}
	d, err := time.ParseDuration(text)
	return d, err == nil && d > 0
}
