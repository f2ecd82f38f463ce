package service

import (
	"errors"
	"testing"

	"dcm/internal/gpu"
)

func TestCachingNode_KeepsReadingUntilChange(t *testing.T) {
	n := &cachingNode{node: gpu.Open(t.TempDir(), nil)}
	devices := []gpu.Device{{Model: "MI300X"}}
	if _, err := n.keep(devices, nil); err != nil || len(n.cache.take()) != 1 {
		t.Errorf("the reading was not kept: %v", err)
	}
	if n.cache.take() != nil {
		t.Error("take returned the same reading twice")
	}
	if _, err := n.keep(devices, errors.New("timeout")); err == nil || n.cache.take() != nil {
		t.Errorf("a failed reading was kept: %v", err)
	}
	_, _ = n.keep(devices, nil)
	if err := n.Execute(t.Context(), nil, nil); err != nil || n.cache.take() != nil {
		t.Errorf("a reading was kept over a change: %v", err)
	}
}
