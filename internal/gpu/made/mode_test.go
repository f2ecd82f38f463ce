package made

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"dcm/internal/gpu/partition"
)

// switchBench is a GPU with modes, and the steps that can be killed.
type switchBench struct {
	ModeState
	published partition.Compute
	kill      int // as in bench
	switches  int
	gone      bool
	busy      error // of the next switch
}

func (b *switchBench) step() {
	if b.kill--; b.kill == -1 {
		panic(errKilled)
	}
}

func (b *switchBench) Read(context.Context, partition.Address) (ModeState, error) {
	b.step()
	if b.gone {
		return ModeState{}, ErrNoModes
	}
	s := b.ModeState
	for i := range s.Compute.Partitions(8) {
		s.Nodes = append(s.Nodes, fmt.Sprintf("/dev/dri/renderD%d", 128+i))
	}
	return s, nil
}

func (b *switchBench) Switch(_ context.Context, _ partition.Address, from, to partition.Compute) error {
	b.step()
	if b.busy != nil {
		err := b.busy
		b.busy = nil
		return err
	}
	if b.Compute != from {
		return fmt.Errorf("found %s, want %s", b.Compute, from)
	}
	b.Compute = to
	b.switches++
	b.step()
	return nil
}

func (b *switchBench) publish(context.Context) error {
	b.step()
	b.published = b.Compute
	return nil
}

func (b *switchBench) run(kill int, f func() error) (err error) {
	b.kill = kill
	defer func() {
		if p := recover(); p != nil {
			err = errKilled
		}
		b.kill = -1
	}()
	return f()
}

func newSwitcher(t *testing.T) (*switchBench, Switcher) {
	b := &switchBench{ModeState: ModeState{Compute: partition.SPX, Available: partition.ComputeModes(), Rest: partition.SPX}, published: partition.SPX, kill: -1}
	retry := func(err error) bool { _, used := errors.AsType[*InUseError](err); return used }
	return b, Switcher{Claims: Claims{t.TempDir()}, GPUs: b, Publish: b.publish, Retry: retry, Log: slog.New(slog.DiscardHandler)}
}

var cpx = Name{GPU: gpu, Profile: "CPX", Rest: partition.SPX}

// Kills of a start at each step, each followed by a kill of the stop at each step: a further start, which
// may fail, and its stop leave nothing.
func TestSwitcher_KilledAtEachStep(t *testing.T) {
	const steps = 10 // a start or a stop has fewer
	kills := 0
	for first := -1; first < steps; first++ {
		for second := -1; second < steps; second++ {
			b, s := newSwitcher(t)
			start := func() error { return s.Make(t.Context(), cpx) }
			stop := func() error { return s.Unmake(t.Context(), cpx) }
			err := b.run(first, start)
			if errors.Is(err, errKilled) {
				kills++
			} else if err != nil || b.Compute != partition.CPX {
				t.Fatalf("start without a kill: %s, %v", b.Compute, err)
			}
			if errors.Is(b.run(second, stop), errKilled) { // systemd stops the unit after a failed start, too
				kills++
				_ = start() // fails if the GPU was switched back already
				if err := stop(); err != nil {
					t.Fatal(err)
				}
			}
			names, err := s.Claims.List()
			if err != nil || len(names) > 0 || b.Compute != partition.SPX || b.published != partition.SPX || b.switches > 4 {
				t.Errorf("start killed at %d, stop at %d: %v, %s, %s listed, %d switches, %v", first, second, names, b.Compute, b.published, b.switches, err)
			}
		}
	}
	if kills < 50 {
		t.Errorf("%d kills are too few", kills)
	}
}

// TestSwitcher_RandomKills starts and stops the units of three modes in any order, with kills, foreign
// switches and processes on the GPU. A mode is never set while another one is.
func TestSwitcher_RandomKills(t *testing.T) {
	const rounds = 4000
	random := rand.New(rand.NewPCG(3, 4))
	b, s := newSwitcher(t)
	s.Retry = func(error) bool { return false }
	names := []Name{cpx, {GPU: gpu, Profile: "DPX", Rest: partition.SPX}, {GPU: gpu, Profile: "SPX", Rest: partition.SPX}}
	active := -1
	made, kills, inUse := 0, 0, 0
	for round := range rounds {
		at := random.IntN(len(names))
		n, kill := names[at], random.IntN(12)
		b.Users = nil
		if random.IntN(6) == 0 {
			b.Users = []string{"python[4711]"}
		}
		var err error
		if random.IntN(2) == 0 && (active < 0 || active == at) {
			err = b.run(kill, func() error { return s.Make(t.Context(), n) })
			if active = -1; err == nil {
				active = at
				made++
			}
		} else if active < 0 || active == at {
			active = -1
			err = b.run(kill, func() error { return s.Unmake(t.Context(), n) })
		}
		switch {
		case errors.Is(err, errKilled):
			kills++
		case err != nil && strings.Contains(err.Error(), "python"):
			inUse++
		}
		claims, _ := s.Claims.List()
		if len(claims) > 1 {
			t.Fatalf("round %d: %v are claimed", round, claims)
		}
		if active >= 0 && (len(claims) != 1 || string(b.Compute) != names[active].Profile || b.published != b.Compute) {
			t.Fatalf("round %d: %s is active, with %v, %s, %s listed", round, names[active], claims, b.Compute, b.published)
		}
		if len(claims) == 0 && b.Compute != partition.SPX {
			t.Fatalf("round %d: %s without a claim", round, b.Compute)
		}
	}
	b.Users = nil
	for _, n := range names {
		if err := s.Unmake(t.Context(), n); err != nil {
			t.Error(err)
		}
	}
	if claims, _ := s.Claims.List(); len(claims) > 0 || b.Compute != partition.SPX {
		t.Errorf("at the end: %v, %s", claims, b.Compute)
	}
	t.Logf("%d made, %d kills, %d in use", made, kills, inUse)
	if made < 300 || kills < 300 || inUse < 50 {
		t.Error("the trial has too few cases")
	}
}

func TestSwitcher_Make(t *testing.T) {
	for _, tt := range []struct {
		name    string
		prepare func(*switchBench, Switcher)
		want    string // part of the error
	}{
		{"at rest", func(*switchBench, Switcher) {}, ""},
		{"in use", func(b *switchBench, _ Switcher) { b.Users = []string{"python[4711]"} }, "python[4711]"},
		{"in another mode", func(b *switchBench, _ Switcher) { b.Compute = partition.DPX }, "found DPX, want SPX"},
		{"mode of other leases", func(_ *switchBench, s Switcher) {
			_ = s.Claims.add(Name{GPU: gpu, Profile: "DPX", Rest: partition.SPX})
		}, "DPX"},
		{"left by an earlier start", func(b *switchBench, s Switcher) { _ = s.Claims.add(cpx); b.Compute = partition.CPX }, ""},
		{"not yet switched back", func(_ *switchBench, s Switcher) { _ = s.Claims.add(cpx) }, "still to be switched back"},
		{"gone", func(b *switchBench, _ Switcher) { b.gone = true }, ErrNoModes.Error()},
		{"busy", func(b *switchBench, _ Switcher) { b.busy = errInUse }, "in use"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, s := newSwitcher(t)
			tt.prepare(b, s)
			err := s.Make(t.Context(), cpx)
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) || b.switches > 0 {
					t.Errorf("got %v after %d switches, want %q", err, b.switches, tt.want)
				}
				return
			}
			if err != nil || b.Compute != partition.CPX || b.published != partition.CPX {
				t.Fatalf("%s, %s listed, %v", b.Compute, b.published, err)
			}
			for i := range 8 {
				to, err := os.Readlink(filepath.Join(s.Claims.Dir, filepath.Base(filepath.Dir(cpx.Node(i))), filepath.Base(cpx.Node(i))))
				if want := fmt.Sprintf("/dev/dri/renderD%d", 128+i); to != want || err != nil {
					t.Errorf("link %d: got %s, %v, want %s", i, to, err, want)
				}
			}
		})
	}
}

func TestSwitcher_Unmake(t *testing.T) {
	for _, tt := range []struct {
		name    string
		prepare func(*switchBench)
		want    partition.Compute
		err     string
	}{
		{"idle", func(*switchBench) {}, partition.SPX, ""},
		{"in use", func(b *switchBench) { b.Users = []string{"python[4711]"} }, partition.CPX, "python[4711]"},
		{"changed by a run", func(b *switchBench) { b.Compute = partition.DPX }, partition.DPX, ""},
		{"profile has another mode", func(b *switchBench) { b.Rest = partition.QPX }, partition.QPX, ""},
		{"profile has this mode", func(b *switchBench) { b.Rest = partition.CPX }, partition.CPX, ""},
		{"profile has none", func(b *switchBench) { b.Rest = "" }, partition.SPX, ""},
		{"not possible with its memory mode", func(b *switchBench) { b.Available = []partition.Compute{partition.CPX} }, partition.CPX, ""},
		{"gone", func(b *switchBench) { b.gone = true }, partition.CPX, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, s := newSwitcher(t)
			if err := s.Make(t.Context(), cpx); err != nil {
				t.Fatal(err)
			}
			tt.prepare(b)
			ctx, cancel := context.WithCancel(t.Context())
			s.Retry = func(error) bool { cancel(); return true } // the first retry is the last
			s.Delay = time.Hour
			err := s.Unmake(ctx, cpx)
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("error: got %v, want %q", err, tt.err)
			}
			if claims, _ := s.Claims.List(); slices.Contains(claims, cpx) != (tt.err != "") || b.Compute != tt.want {
				t.Errorf("got %s with %v, want %s", b.Compute, claims, tt.want)
			}
		})
	}
}

// lateModes ends the time of the stop during the second attempt, as a driver that answers too late.
type lateModes struct {
	ModeGPUs
	end      func()
	attempts int
}

func (g *lateModes) Read(ctx context.Context, gpu partition.Address) (ModeState, error) {
	if g.attempts++; g.attempts == 2 {
		g.end()
		return ModeState{}, ctx.Err()
	}
	return g.ModeGPUs.Read(ctx, gpu)
}

// The reason of a mode that stays is recorded until a lease uses the mode again.
func TestSwitcher_Failure(t *testing.T) {
	b, s := newSwitcher(t)
	s.Retry = func(error) bool { return true }
	if err := s.Make(t.Context(), cpx); err != nil {
		t.Fatal(err)
	}
	b.Users = []string{"python[4711]"}
	ctx, cancel := context.WithCancel(t.Context())
	s.GPUs = &lateModes{ModeGPUs: b, end: cancel}
	if err := s.Unmake(ctx, cpx); err == nil {
		t.Fatal("switch back while in use: want an error")
	}
	s.GPUs = b
	want := []string{fmt.Sprintf("%s stays in CPX: %s is in use by python[4711]", gpu, gpu)}
	if got := s.Claims.Failures(); !slices.Equal(got, want) {
		t.Errorf("failures: got %q, want %q", got, want)
	}
	if err := s.Make(t.Context(), cpx); err != nil || len(s.Claims.Failures()) > 0 {
		t.Errorf("next lease: %v, failures %q", err, s.Claims.Failures())
	}
}

// The time of the last switch is kept after the switch back.
func TestClaims_Since(t *testing.T) {
	_, s := newSwitcher(t)
	if since := s.Claims.Since(cpx); !since.IsZero() {
		t.Errorf("before the first switch: %s", since)
	}
	for _, step := range []func(context.Context, Name) error{s.Make, s.Unmake} {
		if err := step(t.Context(), cpx); err != nil {
			t.Fatal(err)
		}
		if ago := time.Since(s.Claims.Since(cpx)); ago < 0 || ago > time.Minute {
			t.Errorf("last switch: %s ago", ago)
		}
	}
}
