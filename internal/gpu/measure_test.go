package gpu

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/gpu/partition"
)

// gauged is a maker that tells how much is in use.
type gauged struct {
	*maker
	err error
}

func (g gauged) Measure(_ context.Context, devices []*Device) ([]Use, error) {
	var out []Use
	for _, d := range devices {
		for _, p := range d.Parts {
			out = append(out, Use{GPU: d.Address, Index: p.Index, Bytes: 7, Busy: 50})
		}
	}
	return out, g.err
}

func TestWhatAVendorCannotTellIsNotKnown(t *testing.T) {
	devices := []Device{
		{GPU: partition.GPU{Address: a, Vendor: partition.AMD}, Parts: []Part{{Index: 0}, {Index: 1}}},
		{GPU: partition.GPU{Address: b, Vendor: other}, Parts: []Part{{Index: 0}}},
	}
	known := []Use{{GPU: a, Bytes: 7, Busy: 50}, {GPU: a, Index: 1, Bytes: 7, Busy: 50}}
	lost := func(of []Use, why string) []Use {
		var out []Use
		for _, u := range of {
			out = append(out, Use{GPU: u.GPU, Index: u.Index, NoBytes: why, NoBusy: why})
		}
		return out
	}
	none := Use{GPU: b, NoBytes: unmeasured, NoBusy: unmeasured}
	for name, test := range map[string]struct {
		err  error
		want []Use
	}{
		"one vendor tells":               {nil, append(known, none)},
		"the driver of one has no reply": {errors.New("hung"), append(lost(known, "hung"), none)},
	} {
		n := Open(bus(t), []Vendor{gauged{&maker{id: partition.AMD}, test.err}, &maker{id: other}})
		uses, err := n.Measure(t.Context(), devices)
		if d := cmp.Diff(test.want, uses); d != "" || !errors.Is(err, test.err) {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, d)
		}
	}
}
