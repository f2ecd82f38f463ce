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

// tellings is a log that keeps the message of each entry by the GPUs in it, as the
// journal finds it by DCM_GPU=.
type tellings struct {
	by map[string][]string
	on []string
}

func (l *tellings) Enabled(context.Context, slog.Level) bool { return true }
func (l *tellings) WithGroup(string) slog.Handler            { return l }

func (l *tellings) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *l
	for _, a := range attrs {
		if all, ok := a.Value.Any().([]string); ok && a.Key == "gpu" {
			with.on = all
		}
	}
	return &with
}

func (l *tellings) Handle(_ context.Context, r slog.Record) error {
	first, _, _ := strings.Cut(r.Message, " ")
	for _, gpu := range l.on {
		l.by[gpu] = append(l.by[gpu], first)
	}
	return nil
}

// A memory change is requested through one GPU of a hive and made for all of it:
// it is in the story of each.
func TestEveryGPUOfAHiveHasItsStory(t *testing.T) {
	b := newBench(t, "mi300x-8")
	told := &tellings{by: make(map[string][]string)}
	rec := NewRecorder(runstate.Run{ID: "test"}, slog.New(told), func(runstate.Run) {})
	p := profile(partition.QPX, partition.NPS4)
	if run := Run(t.Context(), nodeOf(seeing{b.node, nil}), p, b.opt, rec); run.Result != runstate.Applied {
		t.Fatalf("%s: %v", run.Result, run.Error)
	}
	if len(told.by) != 8 {
		t.Errorf("%d GPUs have a story, want 8", len(told.by))
	}
	for gpu, story := range told.by {
		if want := []string{"putting", "requested", "reloaded", "switched"}; !slices.Equal(story, want) {
			t.Errorf("the story of %s is %q, want %q", gpu, story, want)
		}
	}
}
