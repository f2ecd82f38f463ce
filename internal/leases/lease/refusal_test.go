package lease

import (
	"errors"
	"testing"

	"dcm/internal/gpu/partition"
	"dcm/internal/linux/unitname"
)

// GPUs that refuse a request for the same reason share one entry.
func TestJoinRefusals(t *testing.T) {
	refused := func(text string, gpus ...partition.Address) (out []refusal) {
		for _, gpu := range gpus {
			out = append(out, refusal{gpu, errors.New(text)})
		}
		return out
	}
	all := []partition.Address{"0000:05:00.0", "0000:26:00.0", "0000:46:00.0", "0000:65:00.0", "0000:85:00.0", "0000:a6:00.0", "0000:c6:00.0", "0000:e5:00.0"}
	for want, list := range map[string][]refusal{
		"0000:05:00.0: in use":                                 refused("in use", all[0]),
		"each of 8 GPUs: in use":                               refused("in use", all...),
		"0000:05:00.0: no; 0000:26:00.0, 0000:46:00.0: in use": append(refused("no", all[0]), refused("in use", all[1:3]...)...),
		"0000:05:00.0, 0000:26:00.0, 0000:46:00.0, 0000:65:00.0, 0000:85:00.0 and 2 more: in use; 0000:e5:00.0: no": append(refused("in use", all[:7]...), refused("no", all[7])...),
	} {
		if got := joinRefusals(list); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A request that no GPU can meet has each reason once, for MIG instances and for compute modes.
func TestAcquire_ReasonOnce(t *testing.T) {
	h := newHost()
	h.dynamic = []DynamicGPU{dynamicGPU("0000:05:00.0"), dynamicGPU("0000:26:00.0"), dynamicGPU("0000:46:00.0")}
	for i := range h.dynamic {
		h.dynamic[i].Awaited = "dcm apply"
	}
	_, err := New(Config{Host: Host{h, h, h, h}}).Acquire(t.Context(), alice, Request{Make: "3g.40gb", Kind: unitname.ConfinedLease})
	if want := "no dynamic GPU can have a 3g.40gb now (each of 3 GPUs: dcm apply waits to change the GPU)"; err == nil || err.Error() != want {
		t.Errorf("MIG: got %v, want %q", err, want)
	}
	_, err = New(Config{Host: Host{h, h, h, h}}).Acquire(t.Context(), alice, Request{Make: "5g.50gb", Kind: unitname.ConfinedLease})
	if want := "no dynamic GPU can have a 5g.50gb (each of 3 GPUs: 5g.50gb is no profile of this GPU, which has 1g.10gb, 2g.20gb, 3g.40gb, 7g.80gb)"; err == nil || err.Error() != want {
		t.Errorf("unknown profile: got %v, want %q", err, want)
	}
	m := newModeHost()
	m.modes[first].Refused, m.modes[second].Refused = "older driver", "older driver"
	_, err = m.allocator().Acquire(t.Context(), alice, askMode("CPX", 1))
	if want := "no dynamic GPU can give 1 partition in CPX (each of 2 GPUs: older driver)"; err == nil || err.Error() != want {
		t.Errorf("modes: got %v, want %q", err, want)
	}
}
