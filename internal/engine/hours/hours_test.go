package hours

import (
	"testing"
	"time"
)

func TestHours(t *testing.T) {
	// 2026-11-30 is a Monday.
	for name, tt := range map[string]struct{ text, at, within, next string }{
		"in the working day":    {"Mon..Fri 08:00..18:00", "30 09:15", "30 08:00 to 30 18:00", "01 08:00 to 01 18:00"},
		"at its begin":          {"Mon..Fri 08:00..18:00", "30 08:00", "30 08:00 to 30 18:00", "01 08:00 to 01 18:00"},
		"at its end":            {"Mon..Fri 08:00..18:00", "30 18:00", "", "01 08:00 to 01 18:00"},
		"at the weekend":        {"mon..fri 08:00..18:00", "28 12:00", "", "30 08:00 to 30 18:00"},
		"night, before":         {"22:00..06:00", "30 21:59", "", "30 22:00 to 01 06:00"},
		"night, after midnight": {"22:00..06:00", "30 05:00", "29 22:00 to 30 06:00", "30 22:00 to 01 06:00"},
		"night of one day":      {"Sun 22:00..06:00", "30 05:00", "29 22:00 to 30 06:00", "06 22:00 to 07 06:00"},
		"days":                  {"Sat,Sun", "28 23:59", "28 00:00 to 29 00:00", "29 00:00 to 30 00:00"},
		"over the week's end":   {"Sat..Mon", "30 01:00", "30 00:00 to 01 00:00", "05 00:00 to 06 00:00"},
		"until midnight":        {"Mon 12:00..24:00", "30 23:59", "30 12:00 to 01 00:00", "07 12:00 to 08 00:00"},
		"whole day from noon":   {"12:00..12:00", "30 11:00", "29 12:00 to 30 12:00", "30 12:00 to 01 12:00"},
	} {
		t.Run(name, func(t *testing.T) {
			h, ok := Parse(tt.text)
			if !ok || h.String() != tt.text {
				t.Fatalf("parsed: %q, %t", h, ok)
			}
			at, err := time.Parse("2006-01-02 15:04", "2026-11-"+tt.at)
			if err != nil {
				t.Fatal(err)
			}
			show := func(p Period, ok bool) string {
				if !ok {
					return ""
				}
				return p.Begin.Format("02 15:04") + " to " + p.End.Format("02 15:04")
			}
			if got := show(h.At(at)); got != tt.within {
				t.Errorf("within %q, want %q", got, tt.within)
			}
			if got := show(h.Next(at)); got != tt.next {
				t.Errorf("next %q, want %q", got, tt.next)
			}
		})
	}
}

// On a day on which the clock is changed, a period has the times of day of every day.
func TestHours_ClockChange(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skipf("no time zones here: %v", err)
	}
	h, _ := Parse("Sun 00:00..06:00")
	p, ok := h.At(time.Date(2026, 3, 29, 4, 0, 0, 0, zone))
	if !ok || p.End.Sub(p.Begin) != 5*time.Hour || p.End.Hour() != 6 {
		t.Errorf("period of the day with 23 hours: %v to %v, %t", p.Begin, p.End, ok)
	}
}

func TestHours_Always(t *testing.T) {
	var h Hours
	if p, ok := h.At(time.Now()); !ok || !p.End.IsZero() {
		t.Errorf("always: %v, %t", p, ok)
	}
	if _, ok := h.Next(time.Now()); ok {
		t.Error("always: no period is the next one")
	}
}

func TestParse_Refuses(t *testing.T) {
	for _, text := range []string{"", "Mon..", "Mo", "Mon Tue", "8..18", "08:00", "08:00..", "08:60..09:00", "24:00..06:00", "08:00..25:00", "08:00..18:00 Mon", "Mon 08:00..18:00 x", "*-*-* 08:00"} {
		if h, ok := Parse(text); ok {
			t.Errorf("%q is accepted as %q", text, h)
		}
	}
}
