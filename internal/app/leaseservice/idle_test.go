package leaseservice

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dcm/internal/gpu"
)

func TestAwaitIdle_ReturnsAfterTheLastLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var units atomic.Value
		units.Store("a b c")
		ended := make(chan struct{}, 1)
		list := func() (out []gpu.Holder) {
			for _, u := range strings.Fields(units.Load().(string)) {
				out = append(out, gpu.Holder{Unit: u})
			}
			return out
		}
		var reported []string
		report := func(l []gpu.Holder) { reported = append(reported, l[0].Unit) }
		done := make(chan error, 1)
		go func() { done <- awaitIdle(t.Context(), list, ended, report) }()
		synctest.Wait()
		ended <- struct{}{} // another unit's end
		synctest.Wait()
		units.Store("b c")
		ended <- struct{}{}
		synctest.Wait()
		began := time.Now()
		units.Store("") // without a signal
		if err := <-done; err != nil || time.Since(began) > endPollInterval || strings.Join(reported, "") != "ab" {
			t.Errorf("got %v after %s, with the reports %s", err, time.Since(began), reported)
		}
	})
}

func TestAwaitIdle_Interrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	err := awaitIdle(ctx, func() []gpu.Holder { return []gpu.Holder{{Unit: "a"}} }, nil, func([]gpu.Holder) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
}
