package apply

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
)

// entriesByGPU is a log handler that keeps the first word of each entry for each GPU in its
// attribute gpu, as a search of the journal for DCM_GPU= finds it.
type entriesByGPU struct {
	by map[string][]string
	on []string
}

func (l *entriesByGPU) Enabled(context.Context, slog.Level) bool { return true }
func (l *entriesByGPU) WithGroup(string) slog.Handler            { return l }

func (l *entriesByGPU) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *l
	for _, a := range attrs {
		if all, ok := a.Value.Any().([]string); ok && a.Key == "gpu" {
			with.on = all
		}
	}
	return &with
}

func (l *entriesByGPU) Handle(_ context.Context, r slog.Record) error {
	first, _, _ := strings.Cut(r.Message, " ")
	for _, gpu := range l.on {
		l.by[gpu] = append(l.by[gpu], first)
	}
	return nil
}

// A memory change is requested through one GPU of a hive and changes all its GPUs. A search of the
// log for any of them finds it.
func TestRecorder_LogNamesWholeHive(t *testing.T) {
	b := newBench(t, "mi300x-8")
	log := &entriesByGPU{by: make(map[string][]string)}
	rec := NewRecorder(runstate.Run{ID: "test"}, slog.New(log), func(runstate.Run) {})
	p := profile(partition.QPX, partition.NPS4)
	if run := Run(t.Context(), nodeOf(seeing{b.node, nil}, b.node.Drivers()), p, b.opt, rec); run.Result != runstate.Applied {
		t.Fatalf("%s: %v", run.Result, run.Error)
	}
	if len(log.by) != 8 {
		t.Errorf("%d GPUs have log entries, want 8", len(log.by))
	}
	for gpu, entries := range log.by {
		if want := []string{"putting", "requested", "reloaded", "switched"}; !slices.Equal(entries, want) {
			t.Errorf("log entries of %s: got %q, want %q", gpu, entries, want)
		}
	}
}
