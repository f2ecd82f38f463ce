package text

import "testing"

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
