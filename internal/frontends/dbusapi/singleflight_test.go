package dbusapi

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/godbus/dbus/v5"
)

// Each query starts programs. A user who queries in an endless loop shares one query at a time with all
// others.
func TestSingleflight_Flood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, end := 0, make(chan struct{})
		l := newSharedQueries(func(context.Context) (string, error) {
			began++
			n := began
			<-end
			return fmt.Sprint(n), nil
		})
		var all sync.WaitGroup
		var mu sync.Mutex
		answers := make(map[string]int)
		ask := func(n int, uid uint32) {
			for range n {
				all.Go(func() {
					text, err := l.do(t.Context(), t.Context(), uid)
					mu.Lock()
					defer mu.Unlock()
					if answers[text]++; err != nil {
						t.Error(err)
					}
				})
			}
			synctest.Wait()
		}
		ask(1, 1000)
		ask(200, 1000) // the first result is older than these calls
		ask(200, 1001)
		if began != 1 {
			t.Errorf("concurrent queries: got %d, want 1", began)
		}
		ask(1, 0)
		if began != 2 {
			t.Error("root waits for the users' query")
		}
		close(end)
		all.Wait()
		if began != 3 || answers["1"] != 1 || answers["2"] != 1 || answers["3"] != 400 {
			t.Errorf("queries: got %d, with the answers by call %v", began, answers)
		}
	})
}

func TestSingleflight_Rate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		l := newSharedQueries(func(context.Context) (string, error) { n++; return "", nil })
		began := time.Now()
		for range maxUserCalls + 20 {
			if _, err := l.do(t.Context(), t.Context(), 1000); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took != 20*queryInterval {
			t.Errorf("%d queries took %s", n, took)
		}
		for range 1000 {
			if _, err := l.do(t.Context(), t.Context(), 0); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took != 20*queryInterval {
			t.Errorf("root's queries took %s", took)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := l.do(gone, t.Context(), 1000); !errors.Is(err, context.Canceled) {
			t.Errorf("a call whose context has ended: %v", err)
		}
	})
}

// An error at the deadline of a waiting call differs from a deadline in the query.
func TestToBusError_Deadline(t *testing.T) {
	for want, err := range map[string]error{
		errorLimit:  context.DeadlineExceeded,
		errorFailed: fmt.Errorf("cannot read the GPUs: %w", context.DeadlineExceeded),
	} {
		var remote *dbus.Error
		if got := toBusError(err); !errors.As(got, &remote) || remote.Name != want {
			t.Errorf("bus error of %v: got %v", err, got)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		turns := newFairQueue()
		if _, err := turns.take(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		limit, cancel := context.WithTimeout(t.Context(), queryTimeout)
		defer cancel()
		var remote *dbus.Error
		if _, err := turns.take(limit, 2); !errors.As(toBusError(err), &remote) || remote.Name != errorLimit {
			t.Errorf("error of a call that waited until its deadline: got %v", toBusError(err))
		}
	})
}
