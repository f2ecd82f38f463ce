package dropins

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

	"github.com/google/go-cmp/cmp"
)

// host is a PID 1 whose generator writes the drop-in of alpha.service, unless it is killed.
type host struct {
	mu      sync.Mutex
	kills   int  // so many of the next generators are killed
	masked  bool // all of them are
	refuses bool // a reload is refused
	busy    bool
	open    bool // the kernel does not hold alpha to its list

	loads    int // of all units, by whomever requested
	written  bool
	unit     Unit
	reloaded chan struct{}
	events   []string
}

// alpha was started with its drop-in.
func newHost() *host {
	return &host{written: true, loads: 1, reloaded: make(chan struct{}, 1), unit: Unit{Name: "alpha.service", Slice: "dcm-alpha.slice", Invocation: "1", Started: 10}}
}

func (h *host) pid1() PID1 { return PID1{h, h, h} }

func (h *host) Reloads(context.Context) (<-chan struct{}, func(), error) {
	return h.reloaded, func() {}, nil
}
func (h *host) LoadedAt(context.Context) (uint64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return uint64(h.loads * 10), nil
}
func (h *host) Close() error { return nil }

// load is a reload by anybody: the drop-in is what the generator wrote in it.
func (h *host) load() {
	h.loads++
	h.written = h.kills <= 0 && !h.masked
	h.kills--
	h.unit.Loaded = nil
	if !h.written {
		h.unit.Loaded = []string{"DevicePolicy=auto, want closed"}
	}
	select {
	case h.reloaded <- struct{}{}:
	default:
	}
}

func (h *host) Reload(context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, "reload")
	if h.refuses {
		return errors.New("no space left in /run")
	}
	h.load()
	return nil
}

func (h *host) Confined(context.Context) ([]Unit, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return []Unit{h.unit}, nil
}

func (h *host) TryRestart(_ context.Context, unit string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, "restart:"+unit)
	h.start()
	return nil
}

func (h *host) Realize(_ context.Context, slice string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if slice != "dcm-alpha.slice" {
		return fmt.Errorf("realized %s, want dcm-alpha.slice", slice)
	}
	h.open = !h.written
	return nil
}

// start is a start of alpha, in a slice of dcm's if the drop-in says so.
func (h *host) start() {
	h.unit.Invocation, h.unit.Started, h.unit.Running = h.unit.Invocation+"1", uint64(h.loads*10+5), ""
	h.open = !h.written
	if !h.written {
		h.unit.Running = "its processes run in /system.slice/alpha.service"
	}
}

// startInOwnSlice is a start of a unit whose own file names a slice below dcm.slice.
func (h *host) startInOwnSlice() {
	h.start()
	h.unit.Running = ""
}

func (h *host) differ() ([]string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.written {
		return nil, nil
	}
	return []string{"alpha.service"}, nil
}

func (h *host) underWay() (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.busy, nil
}

// did returns the events since the last call, with how often each came in a row.
func (h *host) did() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []string
	for i := 0; i < len(h.events); {
		n := 1
		for i+n < len(h.events) && h.events[i+n] == h.events[i] {
			n++
		}
		text := h.events[i]
		if n > 1 {
			text = fmt.Sprintf("%d*%s", n, text)
		}
		out = append(out, text)
		i += n
	}
	h.events = nil
	return strings.Join(out, " ")
}

func TestKeeper(t *testing.T) {
	type step struct {
		name string
		do   func(h *host)
		wait time.Duration // after which nothing more is expected to happen
		want string        // events
		lost string        // a part of the standing loss, "" for none
	}
	foreign := func(h *host) { h.load() }
	mask := func(h *host) { h.masked = true; h.load() }
	unmask := func(h *host) { h.masked = false }
	for _, tt := range []struct {
		name  string
		given func(h *host)
		steps []step
	}{
		{"a reload by somebody else that is good", nil, []step{{"reload", foreign, time.Hour, "", ""}}},
		{"its generator is killed once", nil, []step{
			{"reload", func(h *host) { h.kills = 1; h.load() }, time.Hour, "reload", ""},
			{"again", func(h *host) { h.kills = 1; h.load() }, time.Hour, "reload", ""},
		}},
		{"that of the repair is killed too", nil, []step{
			{"reload", func(h *host) { h.kills = 2; h.load() }, time.Second, "reload", "the next daemon-reload"},
			{"time goes by", func(*host) {}, time.Hour, "reload", ""},
		}},
		{"masked for ever", nil, []step{
			{"reload", mask, 24 * time.Hour, "6*reload", "6 daemon-reloads did not help"},
			{"others reload", foreign, 24 * time.Hour, "", "no more are requested"},
			{"unmasked, and others reload", func(h *host) { unmask(h); h.load() }, time.Hour, "", ""},
			{"lost anew", func(h *host) { h.kills = 1; h.load() }, time.Hour, "reload", ""},
		}},
		{"reloads of others while it fails are no cause for more", nil, []step{
			{"reload", mask, 0, "reload", "the next daemon-reload"},
			{"others", foreign, 0, "", "the next daemon-reload"},
			{"others", foreign, 0, "", "the next daemon-reload"},
		}},
		{"a reload that is refused", nil, []step{
			{"reload", func(h *host) { h.refuses = true; h.kills = 1; h.load() }, 0, "reload", "no space left in /run; the next"},
			{"there is space", func(h *host) { h.refuses = false }, time.Hour, "reload", ""},
		}},
		{"a unit that was up is not restarted", nil, []step{{"reload", func(h *host) { h.kills = 1; h.load() }, time.Hour, "reload", ""}}},
		{"nor one whose list was removed at once", nil, []step{{"reload", func(h *host) { h.kills = 1; h.load(); h.open = true }, time.Hour, "reload", ""}}},
		{"nor one whose list was removed meanwhile", nil, []step{
			{"masked", mask, 0, "reload", "alpha.service"},
			{"another of the slice is started", func(h *host) { h.open = true }, 0, "", "alpha.service"},
			{"unmasked", unmask, time.Hour, "reload", ""},
		}},
		{"a unit started without its drop-in is restarted", nil, []step{
			{"masked", mask, 0, "reload", "alpha.service"},
			{"started", (*host).start, 0, "", "alpha.service"},
			{"unmasked", unmask, time.Hour, "reload restart:alpha.service", ""},
		}},
		{"one in a slice that its own file names, too", nil, []step{
			{"masked", mask, 0, "reload", "alpha.service"},
			{"started", (*host).startInOwnSlice, 0, "", "alpha.service"},
			{"unmasked", unmask, time.Hour, "reload restart:alpha.service", ""},
		}},
		{"not while a run restarts units", nil, []step{
			{"masked", mask, 0, "reload", "alpha.service"},
			{"started", func(h *host) { h.start(); h.busy = true }, 0, "", "alpha.service"},
			{"unmasked", unmask, time.Hour, "reload", ""},
			{"the run is over", func(h *host) { h.busy = false }, time.Hour, "restart:alpha.service", ""},
		}},
		{"not one that a run is to restart", func(h *host) { h.unit.Keep = true }, []step{
			{"masked", mask, 0, "reload", "alpha.service"},
			{"started", (*host).start, 0, "", "alpha.service"},
			{"unmasked", unmask, time.Hour, "reload", ""},
		}},
		{"at its start another has reloaded", func(h *host) { h.written = false }, []step{
			{"the daemon reloads", foreign, time.Hour, "", ""},
		}},
		{"at its start nobody else reloads", func(h *host) { h.masked, h.written = true, false }, []step{
			{"at first", func(*host) {}, time.Second, "", ""},
			{"then", unmask, time.Hour, "reload", ""},
		}},
		{"a unit started without its drop-in while nobody watched", (*host).strayed, []step{
			{"at its start", func(*host) {}, time.Hour, "restart:alpha.service", ""},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHost()
				if tt.given != nil {
					tt.given(h)
				}
				k := &Keeper{
					Dial:   func(context.Context) (PID1, error) { return h.pid1(), nil },
					Differ: h.differ, Busy: h.underWay,
					Changed: func() {}, Log: slog.New(slog.DiscardHandler),
				}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() { k.Run(ctx); close(ended) }()
				synctest.Wait()
				for _, s := range tt.steps {
					h.mu.Lock()
					s.do(h)
					h.mu.Unlock()
					time.Sleep(s.wait) // of the bubble: what is due by then happens
					synctest.Wait()
					if got := h.did(); got != s.want {
						t.Errorf("%s: %q, want %q", s.name, got, s.want)
					}
					lost := ""
					if l := k.Lost(); l != nil {
						lost = l.String()
					}
					if !strings.Contains(lost, s.lost) || s.lost == "" && lost != "" {
						t.Errorf("%s: lost is %q, want %q", s.name, lost, s.lost)
					}
				}
				if h.open && h.written && !h.unit.Keep {
					t.Error("alpha is not held to its list")
				}
				cancel()
				<-ended
			})
		})
	}
}

// strayed has alpha started without the drop-in, which is there again.
func (h *host) strayed() {
	h.written = false
	h.start()
	h.written = true
}

// A reload under way while the files are compared leaves them half written.
func TestKeeper_LooksBetweenReloads(t *testing.T) {
	h := newHost()
	looks := 0
	k := &Keeper{Differ: func() ([]string, error) {
		if looks++; looks == 1 {
			h.loads++ // it ends before PID 1 answers again
			return []string{"alpha.service"}, nil
		}
		return nil, nil
	}}
	differ, at, err := k.look(t.Context(), h.pid1())
	if err != nil || len(differ) > 0 || at != 20 || looks != 2 {
		t.Errorf("after %d looks %q at %d, %v, want 2 looks and nothing at 20", looks, differ, at, err)
	}
}

func TestKeeper_ReportsChanges(t *testing.T) {
	h := newHost()
	changes := 0
	k := &Keeper{
		Differ: h.differ, Busy: func() (bool, error) { return false, nil }, Changed: func() { changes++ }, Log: slog.New(slog.DiscardHandler),
	}
	k.defaults()
	check := func(want int) {
		t.Helper()
		if err := k.check(t.Context(), h.pid1()); err != nil || changes != want {
			t.Errorf("%d changes, %v, want %d", changes, err, want)
		}
	}
	check(1)
	check(1)
	h.unit.Loaded = []string{"Slice=system.slice, want dcm-alpha.slice"} // by somebody's own drop-in
	check(2)
	check(2)
}

func TestLoss_NamesFewUnits(t *testing.T) {
	units := []string{"a.service", "b.service", "c.service", "d.service", "e.service", "f.service", "g.service"}
	const want = "systemd has not loaded dcm's drop-ins for a.service, b.service, c.service, d.service, e.service and 2 more; 6 daemon-reloads did not help, no more are requested"
	if diff := cmp.Diff(want, Loss{Units: slices.Clone(units), Tries: 6}.String()); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}
