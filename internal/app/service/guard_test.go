package service

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// unitOfGuard is a dcm-guard.service whose runs end as configured.
type unitOfGuard struct {
	mu     sync.Mutex
	due    string
	needed bool
	runs   []time.Duration // when, since the beginning
	began  time.Time
	killed int // so many runs more are killed before they have done anything
	failed chan struct{}
	clear  int // how often a failure was cleared
}

func newUnitOfGuard() *unitOfGuard {
	return &unitOfGuard{began: time.Now(), failed: make(chan struct{}, 1)}
}

func (u *unitOfGuard) Due(context.Context) (string, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.due, nil
}

func (u *unitOfGuard) Needed() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.needed
}

func (u *unitOfGuard) RunOnce(context.Context) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.runs = append(u.runs, time.Since(u.began))
	if u.killed > 0 {
		u.killed--
		return errors.New(`systemd says "failed"`)
	}
	u.due = ""
	return nil
}

func (u *unitOfGuard) ClearFailed(context.Context) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.clear++
	return nil
}

func (u *unitOfGuard) Failed(ctx context.Context) error {
	select {
	case <-u.failed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// set says what is to be so from now on.
func (u *unitOfGuard) set(due string, needed bool, killed int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.due, u.needed, u.killed = due, needed, killed
}

// ran returns when it ran since it was asked last.
func (u *unitOfGuard) ran() []time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	defer func() { u.runs = nil }()
	return u.runs
}

func TestGuardian_RetriesWhatWasKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUnitOfGuard()
		u.set("dcm-guard was interrupted", true, 2)
		changes := 0
		g := newGuardian(u, u, slog.New(slog.DiscardHandler), func() { changes++ })
		ctx, end := context.WithCancel(t.Context())
		go g.run(ctx)
		time.Sleep(time.Hour) // nothing else happens
		if got := u.ran(); len(got) != 3 || got[0] != 0 || got[1] != firstGuardDelay || got[2] != 3*firstGuardDelay {
			t.Errorf("it ran at %v", got)
		}
		if u.clear != 1 || changes == 0 {
			t.Errorf("failures were cleared %d times, and %d changes were reported", u.clear, changes)
		}
		// Another program started it, and that run was killed.
		u.set("the guard's table is out of date", true, 0)
		u.failed <- struct{}{}
		synctest.Wait()
		if got := u.ran(); len(got) != 1 {
			t.Errorf("after a failure it ran at %v", got)
		}
		end()
		synctest.Wait()
	})
}

func TestGuardian_AsksNobodyWithoutExclusive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUnitOfGuard()
		g := newGuardian(u, u, slog.New(slog.DiscardHandler), func() {})
		ctx, end := context.WithCancel(t.Context())
		go g.run(ctx)
		synctest.Wait()
		u.failed <- struct{}{} // the watcher has ended
		time.Sleep(time.Hour)
		if got := u.ran(); len(got) != 0 || u.clear != 0 || len(u.failed) != 1 {
			t.Errorf("it ran at %v, and its failures were cleared %d times", got, u.clear)
		}
		u.set("the guard's table is out of date", true, 0)
		g.nudge()
		synctest.Wait()
		if got := u.ran(); len(got) != 1 {
			t.Errorf("after a nudge it ran at %v", got)
		}
		end()
		synctest.Wait()
	})
}
