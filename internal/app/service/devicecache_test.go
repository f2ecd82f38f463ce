package service

import (
	"errors"
	"testing"

	"dcm/internal/gpu"
)

func TestALookIsGoodForWhatComesBehindTheRunThatMadeIt(t *testing.T) {
	seen := new(deviceCache)
	n := cachingNode{gpu.Open(t.TempDir(), nil), seen}
	devices := []gpu.Device{{Model: "MI300X"}}
	if _, err := n.note(devices, nil); err != nil || len(seen.take()) != 1 {
		t.Errorf("the look was not kept: %v", err)
	}
	if seen.take() != nil {
		t.Error("it can be taken twice")
	}
	if _, err := n.note(devices, errors.New("late")); err == nil || seen.take() != nil {
		t.Errorf("a look that has failed was kept: %v", err)
	}
	_, _ = n.note(devices, nil)
	if err := n.Execute(t.Context(), nil, nil); err != nil || seen.take() != nil {
		t.Errorf("a look from before a change was kept: %v", err)
	}
}
