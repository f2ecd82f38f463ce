package runstate

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/gpu/partition"
)

func TestGPUClient_Next(t *testing.T) {
	const settleTimeout = 10 * time.Second
	began := time.Date(2026, 11, 29, 9, 0, 0, 0, time.UTC)
	now := began.Add(time.Minute)
	a, b := []partition.Address{"0000:05:00.0"}, []partition.Address{"0000:26:00.0"}
	had := func(state GPUUse, since time.Time) GPUClient {
		return GPUClient{Unit: "llm.service", GPUs: a, Seen: began, State: state, Since: since}
	}
	lost := began.Add(30 * time.Second)
	for _, tt := range []struct {
		name    string
		before  GPUClient
		use     ClientUse
		want    GPUClient
		stopped bool
	}{
		{"opened one", had(GPUAwaited, time.Time{}), ClientUse{Active: true, ActiveFor: time.Second, Open: b}, GPUClient{Unit: "llm.service", GPUs: b, Seen: now, State: GPUOpen}, false},
		{"opened one late", had(NoGPU, lost), ClientUse{Active: true, ActiveFor: time.Minute, Open: a}, GPUClient{Unit: "llm.service", GPUs: a, Seen: now, State: GPUOpen}, false},
		{"starts", had(GPUAwaited, time.Time{}), ClientUse{Starting: true}, had(GPUAwaited, time.Time{}), false},
		{"starts again", had(NoGPU, lost), ClientUse{Starting: true}, had(GPUAwaited, time.Time{}), false},
		{"is young", had(GPUAwaited, time.Time{}), ClientUse{Active: true, ActiveFor: 9 * time.Second}, had(GPUAwaited, time.Time{}), false},
		{"was restarted by hand", had(NoGPU, lost), ClientUse{Active: true, ActiveFor: time.Second}, had(GPUAwaited, time.Time{}), false},
		{"has none", had(GPUAwaited, time.Time{}), ClientUse{Active: true, ActiveFor: settleTimeout}, had(NoGPU, now), false},
		{"has none still", had(NoGPU, lost), ClientUse{Active: true, ActiveFor: 30 * time.Second}, had(NoGPU, lost), false},
		{"was not restarted", had(GPUAwaited, time.Time{}), ClientUse{Active: true, ActiveFor: time.Hour}, had(GPUOpen, time.Time{}), false},
		{"closed it without a restart", had(GPUOpen, time.Time{}), ClientUse{Active: true, ActiveFor: time.Hour}, had(GPUOpen, time.Time{}), false},
		{"could not be inspected", had(GPUAwaited, time.Time{}), ClientUse{Active: true, ActiveFor: settleTimeout, Unknown: true}, had(GPUAwaited, time.Time{}), false},
		{"stopped", had(NoGPU, lost), ClientUse{}, had(NoGPU, lost), true},
		{"boot, has none", GPUClient{Unit: "llm.service", GPUs: a, State: GPUAwaited}, ClientUse{Active: true, ActiveFor: time.Hour}, GPUClient{Unit: "llm.service", GPUs: a, State: NoGPU, Since: now}, false},
	} {
		got, keep := tt.before.Next(tt.use, now, settleTimeout)
		if diff := cmp.Diff(tt.want, got); diff != "" || keep == tt.stopped {
			t.Errorf("%s: kept %t, client (-want +got):\n%s", tt.name, keep, diff)
		}
	}
}

func TestGPUClients_InBoot(t *testing.T) {
	g := GPUClients{Boot: "a", Clients: []GPUClient{{Unit: "llm.service", Seen: time.Unix(1, 0), State: GPUOpen}}}
	if diff := cmp.Diff(g, g.InBoot("a")); diff != "" {
		t.Errorf("the same boot (-want +got):\n%s", diff)
	}
	want := GPUClients{Boot: "b", Clients: []GPUClient{{Unit: "llm.service", State: GPUAwaited}}}
	if diff := cmp.Diff(want, g.InBoot("b")); diff != "" {
		t.Errorf("the next boot (-want +got):\n%s", diff)
	}
}
