package main

import (
	"testing"

	"dcm/internal/systemd"
)

func TestWhatIsExclusiveStaysClosedWithTheSliceStopped(t *testing.T) {
	for name, tt := range map[string]struct {
		jobs []string
		want bool
	}{
		"the slice is stopped":             {[]string{"dcm.slice"}, true},
		"a run begins":                     {[]string{"dcm-apply.service"}, false},
		"a run begins and the slice stops": {[]string{"dcm-apply.service", "dcm.slice"}, false},
		"reservations change":              {[]string{"dcm-reserve.service", "dcm.slice"}, false},
		"the guard alone":                  {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			units := []systemd.Unit{{Name: "dcm.slice"}, {Name: "dcm-apply.service"}, {Name: "dcm-reserve.service"}}
			for i := range units {
				for _, job := range tt.jobs {
					units[i].Job = units[i].Job || units[i].Name == job
				}
			}
			if got := sliceAlone(units); got != tt.want {
				t.Errorf("kept closed is %t, want %t", got, tt.want)
			}
		})
	}
}
