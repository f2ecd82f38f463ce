package service

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// newTestClientWatch returns a watch with three clients, of which batch.service opens GPUs on demand. A scan finds
// *scan.
func newTestClientWatch(scan *clientScan, scans *int) *clientWatch {
	return &clientWatch{
		rules: func() clientRules {
			return clientRules{10 * time.Second, func(unit string) bool { return unit == "llm.service" || unit == "web.service" }}
		},
		scan: func(context.Context, []string) (clientScan, error) { *scans++; return *scan, nil },
		await: func(ctx context.Context, _ []string) error {
			<-ctx.Done()
			return ctx.Err()
		},
		write: func(runstate.GPUClients) error { return nil }, changed: func() {}, log: slog.New(slog.DiscardHandler), nudged: make(chan struct{}, 1),
	}
}

// states returns the clients of a watch with their states, as in "llm none".
func (w *clientWatch) states() string {
	var out []string
	for _, c := range w.list.Clients {
		out = append(out, strings.TrimSuffix(c.Unit, ".service")+" "+string(c.State))
	}
	return strings.Join(out, ", ")
}

func TestClientWatch(t *testing.T) {
	const gpu0 = partition.Address("0000:05:00.0")
	device := gpu.Device{GPU: partition.GPU{Address: gpu0}, ExclusiveNodes: []string{"/dev/dri/renderD128"}}
	holder := func(unit string) gpu.Holder {
		return gpu.Holder{Unit: unit, Devices: []string{"/dev/dri/renderD128"}}
	}
	var scan clientScan
	scans := 0
	w := newTestClientWatch(&scan, &scans)
	w.saved(runstate.State{Phase: runstate.InSync})
	w.end = time.Time{}
	w.found(gpu.Usage{Holders: []gpu.Holder{holder("llm.service"), holder("web.service"), holder("batch.service"), holder("")}}, []gpu.Device{device})
	if got, want := w.states(), "llm open, web open"; got != want {
		t.Fatalf("before the change: %s, want %s", got, want)
	}
	w.saved(runstate.State{Phase: runstate.Applying})
	if got, want := w.states(), "llm awaited, web awaited"; got != want {
		t.Fatalf("during the change: %s, want %s", got, want)
	}
	if again := w.look(t.Context(), time.Now()); again != 0 || scans != 0 {
		t.Fatalf("during the change: %d scans, the next after %s", scans, again)
	}
	w.saved(runstate.State{Phase: runstate.InSync})
	began := time.Now()
	active := func(since time.Duration) runstate.ClientUse {
		return runstate.ClientUse{Active: true, ActiveFor: since}
	}
	open := map[string][]partition.Address{"web.service": {gpu0}}
	for _, step := range []struct {
		at    time.Duration
		llm   runstate.ClientUse
		open  map[string][]partition.Address
		want  string
		again time.Duration
	}{
		{0, runstate.ClientUse{Starting: true}, nil, "llm awaited, web awaited", time.Second},
		{time.Second, active(time.Second), open, "llm awaited, web open", 2 * time.Second},
		{9 * time.Second, active(9 * time.Second), open, "llm awaited, web open", time.Second},
		{10 * time.Second, active(10 * time.Second), open, "llm none, web open", 8 * time.Second},
		{18 * time.Second, active(18 * time.Second), open, "llm none, web open", 16 * time.Second},
		{34 * time.Second, active(time.Second), open, "llm awaited, web open", 2 * time.Second}, // restarted by hand
		{44 * time.Second, active(11 * time.Second), map[string][]partition.Address{"web.service": {gpu0}, "llm.service": {gpu0}}, "llm open, web open", 0},
	} {
		scan = clientScan{open: step.open, units: map[string]runstate.ClientUse{"llm.service": step.llm, "web.service": active(step.at)}}
		again := w.look(t.Context(), began.Add(step.at))
		if w.states() != step.want || again != step.again {
			t.Errorf("after %s: %s, again after %s, want %s, %s", step.at, w.states(), again, step.want, step.again)
		}
	}
	if again := w.look(t.Context(), began.Add(time.Hour)); again != 0 || scans != 7 {
		t.Errorf("at rest: %d scans, the next after %s", scans, again)
	}
}

// Without a client that had a GPU open, there is one scan, at the end of settle-time.
func TestClientWatch_OneScan(t *testing.T) {
	scans := 0
	scan := clientScan{open: map[string][]partition.Address{"web.service": {"0000:05:00.0"}}}
	w := newTestClientWatch(&scan, &scans)
	w.saved(runstate.State{Phase: runstate.InSync})
	began := time.Now()
	if again := w.look(t.Context(), began); again <= 9*time.Second || scans != 0 {
		t.Errorf("at the end of the change: %d scans, the next after %s", scans, again)
	}
	if again := w.look(t.Context(), began.Add(10*time.Second)); again != 0 || scans != 1 || w.states() != "web open" {
		t.Errorf("after settle-time: %d scans, the next after %s, clients %s", scans, again, w.states())
	}
}
