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
	kills   int  // number of next generators that are killed
	masked  bool // the generator is masked
	refuses bool // a reload fails
	busy    bool
	open    bool // the cgroup of alpha has no device list

	loads    int // of all units, including reloads by other programs
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

// load reloads PID 1 and runs the generator.
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

// start starts alpha, in a slice of dcm's if the drop-in exists.
func (h *host) start() {
	h.unit.Invocation, h.unit.Started, h.unit.Running = h.unit.Invocation+"1", uint64(h.loads*10+5), ""
	h.open = !h.written
	if !h.written {
		h.unit.Running = "its processes run in /system.slice/alpha.service"
	}
}

// startInOwnSlice starts a unit whose own file has a slice below dcm.slice.
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

// did returns the events since the last call, with the number of repetitions.
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
		wait time.Duration // until nothing more happens
		want string        // events
		lost string        // a part of the reported loss, "" for none
	}
	foreign := func(h *host) { h.load() }
	mask := func(h *host) { h.masked = true; h.load() }
	unmask := func(h *host) { h.masked = false }
	for _, tt := range []struct {
		name  string
		given func(h *host)
		steps []step
	}{
		{"successful reload by another program", nil, []step{{"reload", foreign, time.Hour, "", ""}}},
		{"generator killed once", nil, []step{
			{"reload", func(h *host) { h.kills = 1; h.load() }, time.Hour, "reload", ""},
			{"again", func(h *host) { h.kills = 1; h.load() }, time.Hour, "reload", ""},
		}},
		{"generator of the repair killed, too", nil, []step{
			{"reload", func(h *host) { h.kills = 2; h.load() }, time.Second, "reload", "the next daemon-reload"},
			{"later", func(*host) {}, time.Hour, "reload", ""},
		}},
		{"masked permanently", nil, []step{
			{"reload", mask, 24 * time.Hour, "6*reload", "6 daemon-reloads did not help"},
			{"others reload", foreign, 24 * time.Hour, "", "no more are requested"},
			{"unmasked, and others reload", func(h *host) { unmask(h); h.load() }, time.Hour, "", ""},
			{"lost again", func(h *host) { h.kills = 1; h.load() }, time.Hour, "reload", ""},
		}},
		{"reloads by others cause no further reloads", nil, []step{
			{"reload", mask, 0, "reload", "the next daemon-reload"},
			{"others", foreign, 0, "", "the next daemon-reload"},
			{"others", foreign, 0, "", "the next daemon-reload"},
		}},
		{"reload fails", nil, []step{
			{"reload", func(h *host) { h.refuses = true; h.kills = 1; h.load() }, 0, "reload", "no space left in /run; the next"},
			{"reload succeeds", func(h *host) { h.refuses = false }, time.Hour, "reload", ""},
		}},
		{"active unit is not restarted", nil, []step{{"reload", func(h *host) { h.kills = 1; h.load() }, time.Hour, "reload", ""}}},
		{"device list removed by the reload", nil, []step{{"reload", func(h *host) { h.kills = 1; h.load(); h.open = true }, time.Hour, "reload", ""}}},
		{"device list removed later", nil, []step{
			{"masked", mask, 0, "reload", "alpha.service"},
			{"another of the slice is started", func(h *host) { h.open = true }, 0, "", "alpha.service"},
			{"unmasked", unmask, time.Hour, "reload", ""},
		}},
		{"unit started without its drop-in", nil, []step{
			{"masked", mask, 0, "reload", "alpha.service"},
			{"started", (*host).start, 0, "", "alpha.service"},
			{"unmasked", unmask, time.Hour, "reload restart:alpha.service", ""},
		}},
		{"the same with its own Slice=", nil, []step{
			{"masked", mask, 0, "reload", "alpha.service"},
			{"started", (*host).startInOwnSlice, 0, "", "alpha.service"},
			{"unmasked", unmask, time.Hour, "reload restart:alpha.service", ""},
		}},
		{"restart waits for the run", nil, []step{
			{"masked", mask, 0, "reload", "alpha.service"},
			{"started", func(h *host) { h.start(); h.busy = true }, 0, "", "alpha.service"},
			{"unmasked", unmask, time.Hour, "reload", ""},
			{"the run is over", func(h *host) { h.busy = false }, time.Hour, "restart:alpha.service", ""},
		}},
		{"Keep prevents the restart", func(h *host) { h.unit.Keep = true }, []step{
			{"masked", mask, 0, "reload", "alpha.service"},
			{"started", (*host).start, 0, "", "alpha.service"},
			{"unmasked", unmask, time.Hour, "reload", ""},
		}},
		{"reload by another program at the start", func(h *host) { h.written = false }, []step{
			{"the daemon reloads", foreign, time.Hour, "", ""},
		}},
		{"no reload by another program at the start", func(h *host) { h.masked, h.written = true, false }, []step{
			{"at first", func(*host) {}, time.Second, "", ""},
			{"then", unmask, time.Hour, "reload", ""},
		}},
		{"unit started without its drop-in before the keeper", (*host).strayed, []step{
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
					time.Sleep(s.wait) // of the bubble
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
					t.Error("the cgroup of alpha has no device list")
				}
				cancel()
				<-ended
			})
		})
	}
}

// strayed starts alpha without the drop-in, which exists again afterwards.
func (h *host) strayed() {
	h.written = false
	h.start()
	h.written = true
}

// During a reload the files are incomplete.
func TestKeeper_ReloadDuringComparison(t *testing.T) {
	h := newHost()
	looks := 0
	k := &Keeper{Differ: func() ([]string, error) {
		if looks++; looks == 1 {
			h.loads++ // PID 1 reloads between the two queries of its time of loading
			return []string{"alpha.service"}, nil
		}
		return nil, nil
	}}
	differ, at, err := k.compare(t.Context(), h.pid1())
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
	h.unit.Loaded = []string{"Slice=system.slice, want dcm-alpha.slice"} // by the administrator's own drop-in
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
