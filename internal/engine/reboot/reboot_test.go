package reboot

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func noon() time.Time { return time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC) }

func TestMay_OncePerWish(t *testing.T) {
	asked := Record{Wish: "NPS4", Boot: "1", Time: noon()}
	granted := asked
	granted.Granted = true
	for name, tt := range map[string]struct {
		last *Record
		next Record
		why  string // "": it may be
	}{
		"the first":                      {nil, Record{Wish: "NPS4", Boot: "1"}, ""},
		"again in the same boot":         {&asked, Record{Wish: "NPS4", Boot: "1"}, "refusing to reboot: a reboot was requested at 2026-01-02T12:00:00Z and has not happened yet"},
		"another in the same boot":       {&asked, Record{Wish: "NPS2", Boot: "1"}, "refusing to reboot: a reboot was requested at 2026-01-02T12:00:00Z and has not happened yet"},
		"after the reboot":               {&asked, Record{Wish: "NPS4", Boot: "2", Time: noon().Add(time.Hour * 1000)}, "refusing to reboot: the reboot at 2026-01-02T12:00:00Z did not help; the next one is allowed after a change of the configuration"},
		"another after the reboot":       {&asked, Record{Wish: "NPS2", Boot: "2"}, ""},
		"after it came true, much later": {&granted, Record{Wish: "NPS4", Boot: "2", Time: noon().Add(time.Hour)}, ""},
		"fulfilled, within an hour":      {&granted, Record{Wish: "NPS4", Boot: "2", Time: noon().Add(time.Minute)}, "refusing to reboot: the last reboot for this was at 2026-01-02T12:00:00Z (want at least 1h0m0s between two)"},
		"fulfilled, with a wrong clock":  {&granted, Record{Wish: "NPS4", Boot: "2", Time: time.Unix(0, 0)}, "refusing to reboot: the last reboot for this was at 2026-01-02T12:00:00Z (want at least 1h0m0s between two)"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := May(tt.last, tt.next); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tt.why, got); diff != "" {
				t.Errorf("refusal (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWrite_ReadBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "reboot.json")
	if r, err := In(path).Read(); r != nil || err != nil {
		t.Errorf("without a file: %v, %v", r, err)
	}
	want := Record{Wish: "NPS4\n", Why: "in use", Boot: "1", Time: noon()}
	if err := In(path).Write(want); err != nil {
		t.Fatal(err)
	}
	got, err := In(path).Read()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, *got); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	if err := In(filepath.Join(path, "x")).Write(want); err == nil {
		t.Error("a record that cannot be written is taken for written")
	}
}

func TestReached(t *testing.T) {
	path := filepath.Join(t.TempDir(), "reboot.json")
	reached := func(wish string) *Record {
		t.Helper()
		if err := Reached(path, wish); err != nil {
			t.Fatal(err)
		}
		r, err := In(path).Read()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := reached("NPS4"); r != nil {
		t.Errorf("a record out of nothing: %+v", r)
	}
	if err := In(path).Write(Record{Wish: "NPS4"}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if r := reached("NPS4"); r == nil || !r.Granted {
			t.Errorf("not granted: %+v", r)
		}
	}
	if r := reached("NPS1"); r != nil {
		t.Errorf("another wish is remembered: %+v", r)
	}
	if err := os.WriteFile(path, []byte("torn"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := reached("NPS1"); r != nil {
		t.Errorf("what cannot be read became %+v", r)
	}
}
