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
		-time.Second: "0.0 s", 1250 * time.Millisecond: "1.2 s", 71 * time.Second: "71 s", 42 * time.Minute: "42 min",
		185 * time.Minute: "3 h 5 min", 52 * time.Hour: "2 d 4 h",
	} {
		if got := Duration(d); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}
