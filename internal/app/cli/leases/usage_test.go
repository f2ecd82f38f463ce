package leases

import (
	"strings"
	"testing"
	"time"

	"dcm/internal/app/cli/console"
	"dcm/internal/leases/accounting"
)

func TestUsed(t *testing.T) {
	busy, joules, bytes := 63.4, 5.4e6, uint64(3<<30)
	for _, tt := range []struct {
		total accounting.Total
		want  string
	}{
		{accounting.Total{}, "-|-|-"},
		{accounting.Total{Busy: &busy}, "63 %|-|-"},
		{accounting.Total{Busy: new(float64), Energy: &joules, PeakMemory: &bytes}, "0 %|1.500 kWh|3 GiB"},
	} {
		a, b, c := used(tt.total)
		if got := strings.Join([]string{a, b, c}, "|"); got != tt.want {
			t.Errorf("%+v: got %s, want %s", tt.total, got, tt.want)
		}
	}
}

func TestParseDate(t *testing.T) {
	for text, want := range map[string]time.Time{
		"":                     {},
		"2026-11-01":           time.Date(2026, 11, 1, 0, 0, 0, 0, time.Local),
		"2026-11-01 12:30:00":  time.Date(2026, 11, 1, 12, 30, 0, 0, time.Local),
		"2026-11-01T12:30:00Z": time.Date(2026, 11, 1, 12, 30, 0, 0, time.UTC),
	} {
		if got, err := parseDate(text); err != nil || !got.Equal(want) {
			t.Errorf("%q: got %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"now", "01.11.2026", "2026-13-01", "2026-11-01 25:00:00"} {
		if got, err := parseDate(text); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: got %s, %v; want an error that names it", text, got, err)
		}
	}
}

func TestShowUsage_NoRuns(t *testing.T) {
	var out strings.Builder
	if err := showUsage(console.Fixed(&out, 80), usageAnswer{By: "user"}, false); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.HasSuffix(text, "\nNo use of partitions is recorded.\n") || strings.Contains(text, "PARTITION-HOURS") {
		t.Errorf("shown:\n%s", text)
	}
}
