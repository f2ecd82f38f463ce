package runstate

import "testing"

func TestUsageDropped(t *testing.T) {
	then := Use{Counted: true, Unseen: 2, Lost: 1}
	for _, test := range []struct {
		name string
		then Use
		now  Use
		want bool
	}{
		{"nothing changed", then, then, false},
		{"more of it", then, Use{Counted: true, Unseen: 3, Lost: 1}, false},
		{"less of it", then, Use{Counted: true, Unseen: 1, Lost: 1}, true},
		{"a process ended", then, Use{Counted: true, Unseen: 2}, true},
		{"the driver is gone", then, Use{}, true},
		{"it counts nothing", Use{}, Use{}, false},
	} {
		if got := test.then.Eased(test.now); got != test.want {
			t.Errorf("%s: %t, want %t", test.name, got, test.want)
		}
	}
}

func TestIdleUsage_UntilReboot(t *testing.T) {
	last := &Run{Boot: "a", Idle: map[string]int{"AMD": 2}}
	if IdleSince(last, "a")["AMD"] != 2 || IdleSince(last, "b") != nil || IdleSince(nil, "a") != nil {
		t.Error("it is not")
	}
}
