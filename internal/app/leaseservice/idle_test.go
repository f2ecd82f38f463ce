package leaseservice

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dcm/internal/engine/host"
	"dcm/internal/engine/host/hosttest"
	"dcm/internal/gpu"
)

func TestAwaitEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var left, calls atomic.Int32
		left.Store(2)
		ended := make(chan struct{})
		done := make(chan error, 1)
		go func() { done <- awaitEvent(t.Context(), func() bool { calls.Add(1); return left.Load() == 0 }, ended) }()
		ended <- struct{}{} // another unit's end
		left.Store(1)
		ended <- struct{}{}
		synctest.Wait()
		if n := calls.Load(); n != 3 {
			t.Errorf("condition evaluated %d times, want 3", n)
		}
		began := time.Now()
		left.Store(0) // without a signal
		if err := <-done; err != nil || time.Since(began) > endPollInterval {
			t.Errorf("got %v after %s", err, time.Since(began))
		}
	})
}

func TestAwaitEvent_Interrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	err := awaitEvent(ctx, func() bool { cancel(); return false }, nil)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
}

// A command that starts when the lease has just ended must not wait for another one.
func TestAwaitEnd_AlreadyEnded(t *testing.T) {
	h := &host.Host{Root: t.TempDir()}
	hosttest.Plant(t, h.Root, "sys/fs/cgroup/dcm.slice/dcm-lease-0-4f1c09aa.scope/cgroup.procs", "71\n")
	if err := AwaitEnd(t.Context(), h, []string{"dcm-lease-0-4f1c09aa.scope", "dcm-lease-0-5f1c09aa.scope"}); err != nil {
		t.Error(err)
	}
	if err := AwaitIdle(t.Context(), &host.Host{Root: t.TempDir()}, func([]gpu.Holder) { t.Error("leases reported, want none") }); err != nil {
		t.Error(err)
	}
}
