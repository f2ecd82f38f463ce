package status

import "testing"

func TestLoose(t *testing.T) {
	holders := []Holder{
		{PID: 1, Devices: []string{"/dev/kfd"}}, {PID: 2, Devices: []string{"/dev/kfd", "/dev/dri/renderD128"}},
		{PID: 3, Devices: []string{"/dev/dri/card0"}}, {PID: 4}, // the process of a lease, which has no device open
	}
	a := Account{Holders: holders, Parts: []Part{{RenderNode: "/dev/dri/renderD128", Card: "/dev/dri/card0"}}}
	if got := a.Loose(); len(got) != 1 || got[0].PID != 1 {
		t.Errorf("loose holders: got %+v", got)
	}
	a.Parts = nil // hidden
	if got := a.Loose(); len(got) > 0 {
		t.Errorf("loose holders without known partitions: got %+v", got)
	}
}
