package leases

import (
	"strings"
	"testing"

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

func TestShowUsage_NoRuns(t *testing.T) {
	var out strings.Builder
	if err := showUsage(console.Fixed(&out, 80), usageAnswer{By: "user"}, false); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.HasSuffix(text, "\nNo use of partitions is recorded.\n") || strings.Contains(text, "PARTITION-HOURS") {
		t.Errorf("shown:\n%s", text)
	}
}
