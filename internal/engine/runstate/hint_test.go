package runstate

import "testing"

func TestWithdrawn(t *testing.T) {
	for hint, want := range map[string]string{
		"stop these processes" + Again:              "stop these processes",
		"Choose another; " + Withdrawal(false, "x"): "Choose another",
		Withdrawal(true, "x"):                       "",
		Withdraw:                                    "",
		"load the driver":                           "load the driver",
	} {
		if got := Withdrawn(hint); got != want {
			t.Errorf("%q becomes %q, want %q", hint, got, want)
		}
	}
	if got := Withdrawn(InUse([]Holder{{PID: 1, Devices: []string{"/dev/kfd"}}}).Hint); got == "" || got != Withdrawn(got+Again) {
		t.Errorf("who uses a GPU is hinted by %q", got)
	}
}
