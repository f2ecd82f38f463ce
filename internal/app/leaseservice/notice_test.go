package leaseservice

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dcm/internal/frontends/status"
	"dcm/internal/linux/systemd"
)

// announced are the notices about leases of a test.
type announced struct {
	*notices
	mu     sync.Mutex
	leases []status.Lease
	fails  error
	texts  []string
}

func newAnnounced(leases ...status.Lease) *announced {
	a := &announced{leases: leases}
	a.notices = &notices{
		list: func(context.Context) ([]status.Lease, error) {
			a.mu.Lock()
			defer a.mu.Unlock()
			return slices.Clone(a.leases), a.fails
		},
		send: func(_ context.Context, l status.Lease) error {
			a.edit(func() { a.texts = append(a.texts, l.Lease+" "+time.Until(*l.Until).String()) })
			return nil
		},
		now: time.Now, log: slog.New(slog.DiscardHandler), sent: make(map[string]time.Time), wake: make(chan struct{}, 1),
	}
	return a
}

func (a *announced) edit(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

func limited(name string, since time.Time, limit time.Duration) status.Lease {
	l := status.Lease{Lease: name, Since: since}
	if limit > 0 {
		until := since.Add(limit)
		l.Until = &until
	}
	return l
}

func TestNotices(t *testing.T) {
	for _, tt := range []struct {
		name   string
		limits []time.Duration
		want   []string
	}{
		{"no lease", nil, nil},
		{"no limit", []time.Duration{0}, nil},
		{"two hours", []time.Duration{2 * time.Hour}, []string{"0 5m0s"}},
		{"a short one", []time.Duration{8 * time.Minute}, []string{"0 4m0s"}},
		{"several", []time.Duration{3 * time.Hour, time.Hour, 0, time.Hour, 20 * time.Second}, []string{"4 10s", "1 5m0s", "3 5m0s", "0 5m0s"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newAnnounced()
				ctx, cancel := context.WithCancel(t.Context())
				go n.run(ctx)
				synctest.Wait()
				now := time.Now()
				for i, limit := range tt.limits {
					n.edit(func() { n.leases = append(n.leases, limited(fmt.Sprint(i), now, limit)) })
					if limit > 0 {
						n.expect(noticeAt(now, now.Add(limit)))
					}
				}
				time.Sleep(4 * time.Hour)
				cancel()
				synctest.Wait()
				if !slices.Equal(n.texts, tt.want) {
					t.Errorf("notices: got %q, want %q", n.texts, tt.want)
				}
			})
		})
	}
}

// An extended lease is announced again before its new end, and a lease that ended early is not.
func TestNotices_ExtendedAndEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newAnnounced(limited("a", time.Now(), time.Hour), limited("b", time.Now(), time.Hour))
		ctx, cancel := context.WithCancel(t.Context())
		go n.run(ctx) // finds the leases of an earlier daemon
		time.Sleep(50 * time.Minute)
		n.edit(func() { n.leases = n.leases[:1] })
		time.Sleep(6 * time.Minute)
		n.edit(func() { n.leases[0] = limited("a", n.leases[0].Since, 2*time.Hour) })
		n.expect(time.Now())
		time.Sleep(50 * time.Minute)
		n.edit(func() { n.fails = errors.New("no answer") }) // at the time of the second notice
		time.Sleep(9*time.Minute + 30*time.Second)
		n.edit(func() { n.fails = nil })
		time.Sleep(time.Hour)
		cancel()
		synctest.Wait()
		if want := []string{"a 5m0s", "a 4m0s"}; !slices.Equal(n.texts, want) {
			t.Errorf("notices: got %q, want %q", n.texts, want)
		}
	})
}

func TestNoticeText(t *testing.T) {
	now := time.Date(2026, 11, 2, 9, 0, 0, 0, time.Local)
	got := noticeText("dcm-lease-0-00000001.scope", now.Add(5*time.Minute), now)
	want := "\r\ndcm: dcm-lease-0-00000001.scope ends at 2026-11-02 09:05:00, in 5m0s, by its time limit\r\nhint: dcm lease extend dcm-lease-0-00000001.scope +1h\r\n"
	if got != want || strings.Contains(strings.ReplaceAll(got, "\r\n", ""), "\n") {
		t.Errorf("notice: got %q, want %q", got, want)
	}
}

// The owner of a terminal of mode 0600 may write to it.
func TestNoticeService_RunsAsUser(t *testing.T) {
	until := time.UnixMicro(1)
	s := noticeService(status.Lease{Lease: "dcm-lease-1000-00000001.scope", Until: &until})
	i := slices.IndexFunc(s.Extra, func(p systemd.Property) bool { return p.Name == "User" })
	if i < 0 || s.Extra[i].Value != "1000" {
		t.Errorf("properties %+v, want User=1000", s.Extra)
	}
}
