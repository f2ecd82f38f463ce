package service

import (
	"errors"
	"testing"

	"dcm/internal/app/host"
	"dcm/internal/engine/config"
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
	if err := n.Make(t.Context(), nil, nil); err != nil || seen.take() != nil {
		t.Errorf("a look from before a change was kept: %v", err)
	}
}

// In the middle of a restart PID 1 has enough to do.
func TestWithoutReservationsOrLeasesNobodyIsAskedForLeases(t *testing.T) {
	if nodes, err := (partitionPublisher{}).leased(t.Context()); nodes != nil || err != nil {
		t.Errorf("nodes of leases: %q, %v", nodes, err)
	}
	// A host without systemd, which would be an error.
	s := partitionPublisher{host: &host.Host{Root: t.TempDir()}, reserved: []config.Reservation{{Name: "llm"}}}
	if nodes, err := s.leased(t.Context()); nodes != nil || err != nil {
		t.Errorf("without leases: %q, %v", nodes, err)
	}
}
