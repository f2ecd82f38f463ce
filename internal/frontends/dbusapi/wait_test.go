package dbusapi

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"dcm/internal/testkit/testdeadline"
)

// up is [RetryPolicy.Down] for a dcm.service that runs until the context ends.
func up(ctx context.Context) (string, error) {
	<-ctx.Done()
	return "", ctx.Err()
}

// applied calls Apply as a command does. The returned channel gets the result.
func (b *broker) applied(ctx context.Context, w RetryPolicy) <-chan error {
	done := make(chan error, 1)
	go func() {
		done <- Call(ctx, b.address, w, func(c *Client) error {
			_, err := c.Apply(ctx)
			return err
		})
	}()
	return done
}

func (b *broker) result(done <-chan error) error {
	b.Helper()
	select {
	case err := <-done:
		return err
	case <-testdeadline.After(eventTimeout):
		b.Fatal("the call does not return")
	}
	panic("unreachable")
}

// reported returns [RetryPolicy.Note], and the channel that its texts are sent to.
func reported() (func(string), <-chan string) {
	texts := make(chan string, 10)
	return func(text string) { texts <- text }, texts
}

func TestCall_WaitsForStartingDaemon(t *testing.T) {
	b := startBus(t)
	note, texts := reported()
	done := b.applied(t.Context(), RetryPolicy{Limit: time.Hour, Down: up, Note: note})
	select {
	case text := <-texts:
		if text != "dcm is not on the system bus; waiting until it is back" {
			t.Errorf("note: got %q", text)
		}
	case err := <-done:
		t.Fatalf("the call ended before the daemon started: %v", err)
	}
	d := &desk{}
	b.serve(d, 0)
	if err := b.result(done); err != nil || d.did() != "apply" {
		t.Errorf("got %v, calls of the daemon: %q", err, d.did())
	}
}

func TestCall_FailsWhileTheDaemonIsDown(t *testing.T) {
	b := startBus(t)
	down := func(context.Context) (string, error) { return "failed", nil }
	err := b.result(b.applied(t.Context(), RetryPolicy{Limit: time.Hour, Down: down}))
	var is *DownError
	if !errors.As(err, &is) || !errors.Is(err, ErrAbsent) || err.Error() != "dcm.service is not running (failed); see systemctl status dcm" {
		t.Errorf("got %v", err)
	}
}

func TestCall_FailsAfterItsLimit(t *testing.T) {
	b := startBus(t)
	if err := b.result(b.applied(t.Context(), RetryPolicy{Limit: time.Millisecond, Down: up})); !errors.Is(err, ErrNotBack) {
		t.Errorf("got %v", err)
	}
}

// Without a limit Call waits for a stopped daemon, but not for one that is not installed.
func TestCall_WithoutLimit(t *testing.T) {
	b := startBus(t)
	note, texts := reported()
	stopped := func(context.Context) (string, error) { return "inactive", nil }
	done := b.applied(t.Context(), RetryPolicy{Down: stopped, Note: note})
	for text := range texts {
		if strings.HasPrefix(text, "dcm.service is inactive") {
			break
		}
	}
	d := &desk{}
	b.serve(d, 0)
	if err := b.result(done); err != nil || d.did() != "apply" {
		t.Errorf("got %v, calls of the daemon: %q", err, d.did())
	}
}

func TestCall_WithoutLimitButNotInstalled(t *testing.T) {
	b := startBus(t)
	missing := func(context.Context) (string, error) { return "not-found", nil }
	if err := b.result(b.applied(t.Context(), RetryPolicy{Down: missing})); !errors.Is(err, ErrAbsent) {
		t.Errorf("got %v", err)
	}
}

func TestCall_EndsWithItsContext(t *testing.T) {
	b := startBus(t)
	note, texts := reported()
	ctx, cancel := context.WithCancelCause(t.Context())
	done := b.applied(ctx, RetryPolicy{Down: up, Note: note})
	<-texts
	why := errors.New("interrupted")
	cancel(why)
	if err := b.result(done); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}

// The bus is restarted between the call and its reply.
func TestCall_ConnectionIsClosed(t *testing.T) {
	for _, once := range []bool{false, true} {
		b := startBus(t)
		called := make(chan struct{})
		d := &desk{}
		done := make(chan error, 1)
		calls := 0
		go func() {
			done <- Call(t.Context(), b.address, RetryPolicy{Limit: time.Hour, Down: up, Once: once}, func(c *Client) error {
				if calls++; calls == 1 {
					close(called)
					<-c.conn.Context().Done()
				}
				_, err := c.Apply(t.Context())
				return err
			})
		}()
		<-called
		b.stop()
		if once {
			if err := b.result(done); !errors.Is(err, ErrGone) {
				t.Errorf("got %v", err)
			}
			continue
		}
		// systemd keeps the socket of the real bus open, unless dbus.socket is restarted too. Here the socket is
		// missing for longer than several attempts to connect.
		select {
		case err := <-done:
			t.Fatalf("the call returned during the restart: %v", err)
		case <-time.After(3 * redialDelay):
		}
		b.start()
		b.serve(d, 0)
		if err := b.result(done); err != nil || d.did() != "apply" {
			t.Errorf("got %v, calls of the daemon: %q", err, d.did())
		}
	}
}
