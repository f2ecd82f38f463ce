package runstate

import "testing"

func TestACureOfWhatIsUndonePromisesNothing(t *testing.T) {
	for cure, want := range map[string]string{
		"stop these processes" + Again:                           "stop these processes",
		"Choose another; " + Withdraw + " (it is selected by x)": "Choose another",
		Withdraw:          "",
		"load the driver": "load the driver",
	} {
		if got := Withdrawn(cure); got != want {
			t.Errorf("%q becomes %q, want %q", cure, got, want)
		}
	}
	if got := Withdrawn(InUse([]Holder{{PID: 1, Devices: []string{"/dev/kfd"}}}).Cure); got == "" || got != Withdrawn(got+Again) {
		t.Errorf("who uses a GPU is cured by %q", got)
	}
}
