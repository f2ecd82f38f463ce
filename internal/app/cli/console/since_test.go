package console

import (
	"testing"
	"time"
)

func TestParseSince(t *testing.T) {
	now := time.Date(2026, 11, 28, 9, 30, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"":                     "0001-01-01T00:00:00Z",
		"today":                "2026-11-28T00:00:00Z",
		"yesterday":            "2026-11-27T00:00:00Z",
		"2026-11-01":           "2026-11-01T00:00:00Z",
		"2026-11-01 12:00":     "2026-11-01T12:00:00Z",
		"2026-11-01 12:00:05":  "2026-11-01T12:00:05Z",
		"2026-11-01T12:00:00Z": "2026-11-01T12:00:00Z",
		"08:15":                "2026-11-28T08:15:00Z",
		"90m":                  "2026-11-28T08:00:00Z",
		"-1h":                  "2026-11-28T08:30:00Z",
		"2d":                   "2026-11-26T09:30:00Z",
		"1w":                   "2026-11-21T09:30:00Z",
	} {
		if got, err := ParseSince(text, now); err != nil || got.Format(time.RFC3339) != want {
			t.Errorf("%q: got %s, %v; want %s", text, got.Format(time.RFC3339), err, want)
		}
	}
	for _, text := range []string{"soon", "0d", "d", "2026-13-01", "-", "25:00"} {
		if got, err := ParseSince(text, now); err == nil {
			t.Errorf("%q: got %s, want an error", text, got)
		}
	}
}
