package gpu

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/gpu/partition"
)

// measure is the Measure of a vendor that fails with err.
func measure(err error) func(context.Context, []*Device) ([]PartitionUsage, error) {
	return func(_ context.Context, devices []*Device) ([]PartitionUsage, error) {
		var out []PartitionUsage
		for _, d := range devices {
			for _, p := range d.Parts {
				out = append(out, PartitionUsage{GPU: d.Address, Index: p.Index, Bytes: 7, Busy: 50})
			}
		}
		return out, err
	}
}

func TestMeasure_UnknownFigures(t *testing.T) {
	devices := []Device{
		{GPU: partition.GPU{Address: a, Vendor: partition.AMD}, Parts: []Part{{Index: 0}, {Index: 1}}},
		{GPU: partition.GPU{Address: b, Vendor: other}, Parts: []Part{{Index: 0}}},
	}
	known := []PartitionUsage{{GPU: a, Bytes: 7, Busy: 50}, {GPU: a, Index: 1, Bytes: 7, Busy: 50}}
	lost := func(of []PartitionUsage, why string) []PartitionUsage {
		var out []PartitionUsage
		for _, u := range of {
			out = append(out, PartitionUsage{GPU: u.GPU, Index: u.Index, NoBytesReason: why, NoBusyReason: why})
		}
		return out
	}
	none := PartitionUsage{GPU: b, NoBytesReason: reasonNotMeasured, NoBusyReason: reasonNotMeasured}
	for name, test := range map[string]struct {
		err  error
		want []PartitionUsage
	}{
		"one vendor reports":             {nil, append(known, none)},
		"the driver of one has no reply": {errors.New("hung"), append(lost(known, "hung"), none)},
	} {
		amd := (&fakeVendor{id: partition.AMD}).vendor()
		amd.Measure = measure(test.err)
		n := Open(fakePCI(t), []Vendor{amd, (&fakeVendor{id: other}).vendor()})
		uses, err := n.Measure(t.Context(), devices)
		if d := cmp.Diff(test.want, uses); d != "" || !errors.Is(err, test.err) {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, d)
		}
	}
}
