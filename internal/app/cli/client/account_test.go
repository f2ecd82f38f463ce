package client

import (
	"context"
	"encoding/json"
	"testing"

	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/status"
)

// starter is a daemon that has read the GPUs before the call with this number.
type starter struct {
	reads, calls int
	changed      chan struct{}
}

func (s *starter) Account(context.Context) (string, error) {
	s.calls++
	a := status.Account{Version: status.Version, Daemon: status.Daemon{Phase: runstate.Starting}}
	if s.calls >= s.reads {
		a.Daemon.Phase, a.GPUs = runstate.InSync, []status.GPU{{Address: "0000:05:00.0"}}
	}
	text, err := json.Marshal(a)
	return string(text), err
}

func (s *starter) Changes(context.Context) (<-chan struct{}, error) { return s.changed, nil }

// TestReadAccount_Starting: the status of a daemon that is starting is read again after each of its changes,
// until it has the GPUs.
func TestReadAccount_Starting(t *testing.T) {
	for _, reads := range []int{1, 2, 4} {
		s := &starter{reads: reads, changed: make(chan struct{}, reads)}
		for range reads {
			s.changed <- struct{}{}
		}
		a, err := readAccount(t.Context(), s)
		if err != nil || len(a.GPUs) != 1 || s.calls != reads {
			t.Errorf("GPUs known at call %d: %d calls, %d GPUs, %v", reads, s.calls, len(a.GPUs), err)
		}
	}
}

// A caller that gives up gets no answer.
func TestReadAccount_Cancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := &starter{reads: 1 << 20, changed: make(chan struct{})}
	cancel()
	if _, err := readAccount(ctx, s); err == nil {
		t.Error("no error")
	}
}
