package service

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"dcm/internal/engine/runstate"
)

// The daemon hears of a run at its end. Who looks at it over the bus sees each step.
func TestEachStepOfARunIsShown(t *testing.T) {
	steps, ended := make(chan struct{}), make(chan struct{})
	p := &statusPublisher{again: make(chan struct{}, 1), steps: func(ctx context.Context) (<-chan struct{}, error) {
		context.AfterFunc(ctx, func() { close(ended) })
		return steps, nil
	}}
	p.accompany(t.Context(), runstate.Applying)
	for range 2 {
		steps <- struct{}{}
		<-p.again
		p.accompany(t.Context(), runstate.Applying) // as what is shown does
	}
	p.accompany(t.Context(), runstate.InSync)
	if p.running != nil {
		t.Error("it watches on when the run is over")
	}
	<-ended
}

func TestEachStepOfARunIsShown_NoWatch(t *testing.T) {
	var logged strings.Builder
	p := &statusPublisher{again: make(chan struct{}, 1), log: slog.New(slog.NewTextHandler(&logged, nil)), steps: func(context.Context) (<-chan struct{}, error) {
		return nil, errors.New("no inotify instance is available")
	}}
	for range 2 {
		p.accompany(t.Context(), runstate.Applying)
	}
	if n := strings.Count(logged.String(), "no inotify instance is available"); n != 1 {
		t.Errorf("warnings: want one for a run, got %d: %s", n, logged.String())
	}
	p.accompany(t.Context(), runstate.InSync)
}
