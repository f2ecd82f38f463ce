package lease

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/gpu/partition"
	"dcm/internal/leases/placement"
	"dcm/internal/linux/unitname"
)

func TestParsePartName(t *testing.T) {
	for text, want := range map[string]string{
		"0000:65:00.0-1": "{0000:65:00.0  1}", "65-1": "{0 65 1}", "05-0": "{0 05 0}", "3-1": "{3  1}", "128-2": "{128  2}",
		"": "", "65": "", "-1": "", "65-": "", "65-x": "", "6g-1": "", "65--1": "", "0000:65:00.0": "", "65-1-": "",
	} {
		p, err := ParsePartName(text)
		if got := fmt.Sprint(p); (err == nil) != (want != "") || want != "" && got != want {
			t.Errorf("%q: got %s, %v; want %s", text, got, err, want)
		}
	}
}

func TestOnBus(t *testing.T) {
	gpus := []partition.Address{"0000:05:00.0", "0000:65:00.0", "0001:65:00.0"}
	for bus, want := range map[string]string{"05": "0000:05:00.0", "06": "no partitionable GPU on bus 06", "65": "2 GPUs are on bus 65 (0000:65:00.0, 0001:65:00.0)"} {
		gpu, err := OnBus(bus, gpus)
		if got := fmt.Sprint(gpu, err); !strings.Contains(got, want) {
			t.Errorf("bus %s: got %s, want %s", bus, got, want)
		}
	}
}

func named(names ...string) Request {
	return Request{Want: placement.Want{}.NamePartitions(names), Kind: unitname.ConfinedLease}
}

// A request by name gets these partitions, also if others are a better choice, and waits for their holder.
func TestNamedPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t)
		first := c.given(c.request(t.Context(), process(1000, 10), named("0000:26:00.0-3", "0000:05:00.0-1")))
		var got []string
		for _, p := range first.Choice.Partitions {
			got = append(got, p.Name)
		}
		if diff := cmp.Diff([]string{"0000:05:00.0-1", "0000:26:00.0-3"}, got); diff != "" {
			t.Errorf("partitions (-want +got):\n%s", diff)
		}
		gpu := Request{Want: placement.Want{}.NameGPUs([]partition.Address{"0000:05:00.0"}), Kind: unitname.ConfinedLease}
		for want, r := range map[string]Request{
			"0000:26:00.0-3 is not free; held by " + first.Unit:                                   named("0000:26:00.0-3"),
			"0000:26:00.0-3, 0000:26:00.0-2 requested, but 1 of 2 is free; held by " + first.Unit: named("0000:26:00.0-3", "0000:26:00.0-2"),
			"0000:05:00.0 is not free; held by " + first.Unit:                                     gpu,
		} {
			if err := c.result(c.request(t.Context(), process(1001, 11), r)).err; err == nil || err.Error() != want || !insufficient(err) {
				t.Errorf("error: got %v, want %s", err, want)
			}
		}
		gpu.Wait = true
		waiting := c.request(t.Context(), process(1001, 11), gpu)
		// A later request for other partitions passes, one for a partition of that GPU does not.
		c.given(c.request(t.Context(), process(1002, 12), named("0000:26:00.0-0")))
		if err := c.result(c.request(t.Context(), process(1003, 13), named("0000:05:00.0-0"))).err; !insufficient(err) {
			t.Errorf("request for a partition that an earlier one waits for: got %v, want an error", err)
		}
		if diff := cmp.Diff([]string{"0000:05:00.0"}, c.keeper.Queue()[0].Names); diff != "" {
			t.Errorf("names in the queue (-want +got):\n%s", diff)
		}
		c.host.Stop(t.Context(), first.Unit)
		if got := len(c.given(waiting).Choice.Partitions); got != 4 {
			t.Errorf("partitions of the GPU: got %d, want 4", got)
		}
	})
}
