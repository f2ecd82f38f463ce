package status

import (
	"errors"
	"testing"
)

func TestSince_BusyFromCounters(t *testing.T) {
	half := 50.0
	was := PartUse{Name: "a", Mode: "CPX", Sum: 1000, Cycles: 100, Unknown: map[string]string{KeyBusy: "needs two samples", KeyUsed: "hidden"}}
	for name, test := range map[string]struct {
		now  PartUse
		want float64 // -1: unknown
	}{
		"part of the time":          {PartUse{Name: "a", Mode: "CPX", Sum: 4700, Cycles: 200}, 37},
		"nothing":                   {PartUse{Name: "a", Mode: "CPX", Sum: 1000, Cycles: 200}, 0},
		"busy is reported":          {PartUse{Name: "a", Mode: "CPX", Sum: 4700, Cycles: 200, Busy: &half}, 50},
		"no time has passed":        {PartUse{Name: "a", Mode: "CPX", Sum: 1000, Cycles: 100}, -1},
		"counters restarted":        {PartUse{Name: "a", Mode: "CPX", Sum: 5, Cycles: 1}, -1},
		"sum restarted":             {PartUse{Name: "a", Mode: "CPX", Sum: 5, Cycles: 200}, -1},
		"a counter that overflowed": {PartUse{Name: "a", Mode: "CPX", Sum: 1 << 60, Cycles: 200}, -1},
		"another mode":              {PartUse{Name: "a", Mode: "SPX", Sum: 4700, Cycles: 200}, -1},
		"another partition":         {PartUse{Name: "b", Mode: "CPX", Sum: 4700, Cycles: 200}, -1},
		"no counters":               {PartUse{Name: "a", Mode: "CPX"}, -1},
	} {
		test.now.Unknown = was.Unknown
		u := Usage{Parts: []PartUse{test.now}}
		got := u.Since(Usage{Parts: []PartUse{was}}).Parts[0]
		switch {
		case test.want < 0 && (got.Busy != nil || got.Unknown[KeyBusy] == ""):
			t.Errorf("%s: got %+v", name, got)
		case test.want >= 0 && (got.Busy == nil || *got.Busy != test.want):
			t.Errorf("%s: busy: got %v, want %v", name, got.Busy, test.want)
		case got.Unknown[KeyUsed] != "hidden" || u.Parts[0].Busy != test.now.Busy || was.Unknown[KeyBusy] == "":
			t.Errorf("%s: the argument was changed, or a value is lost: %+v", name, got)
		}
	}
}

func TestHide_KeepsReason(t *testing.T) {
	var u Usage
	u.Hide(PartHolders, nil)
	u.Hide(PartProcesses, errors.New("no time"))
	if u.Why(PartHolders) != "" || u.Why(PartProcesses) != "no time" {
		t.Errorf("hidden parts: %+v", u.Hidden)
	}
}
