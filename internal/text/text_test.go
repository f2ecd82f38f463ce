package text

import (
	"testing"
	"time"
)

func TestFormats(t *testing.T) {
	for got, want := range map[string]string{
		Count(1, "step"):       "1 step",
		Count(2, "step"):       "2 steps",
		GiB(8 << 30):           "8 GiB",
		GiB(15 << 29):          "7.5 GiB",
		OneLine(" a\nb\n"):     "a; b",
		Few([]string{"a"}):     "a",
		Few(make([]string, 7)): ", , , ,  and 2 more",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0.0 s", 1240 * time.Millisecond: "1.2 s", 71 * time.Second: "71 s", 42 * time.Minute: "42 min",
		185 * time.Minute: "3 h 5 min", 52 * time.Hour: "2 d 4 h",
		1260 * time.Millisecond: "1.3 s", 9960 * time.Millisecond: "10 s", 3600 * time.Millisecond: "3.6 s", 42600 * time.Millisecond: "43 s",
		119600 * time.Millisecond: "2 min", 59*time.Minute + 40*time.Second: "1 h 0 min", 24*time.Hour - time.Second: "1 d 0 h",
	} {
		if got := Duration(d); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}

func TestPartitions(t *testing.T) {
	for want, names := range map[string][]string{
		"":                                  nil,
		"0000:05:00.0-3":                    {"0000:05:00.0-3"},
		"0000:05:00.0-[0-2,5,11]":           {"0000:05:00.0-0", "0000:05:00.0-1", "0000:05:00.0-2", "0000:05:00.0-5", "0000:05:00.0-11"},
		"0000:26:00.0-[0-1] 0000:05:00.0-7": {"0000:26:00.0-1", "0000:05:00.0-7", "0000:26:00.0-0"},
		"odd 0000:05:00.0-[0,2]":            {"odd", "0000:05:00.0-0", "0000:05:00.0-2"},
	} {
		if got := Partitions(names); got != want {
			t.Errorf("%q: %q, want %q", names, got, want)
		}
	}
}
