package apply

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// unreliable is a node with NVIDIA GPUs whose driver fails at random steps, and whose GPUs may disappear.
type unreliable struct {
	*sliced
	t      *testing.T
	when   string
	lost   map[partition.Address]bool
	common map[partition.Address][]partition.Instance // of both geometries of a GPU that is never full
}

func (u *unreliable) Wait(ctx context.Context) ([]gpu.Device, error)          { return u.Devices(ctx) }
func (u *unreliable) WaitAfterLoad(ctx context.Context) ([]gpu.Device, error) { return u.Devices(ctx) }

func (u *unreliable) Devices(ctx context.Context) ([]gpu.Device, error) {
	all, err := u.sliced.Devices(ctx)
	return slices.DeleteFunc(all, func(d gpu.Device) bool { return u.lost[d.Address] }), err
}

func (u *unreliable) Execute(ctx context.Context, steps []partition.Step, tell gpu.StepFunc) error {
	var errs []error
	for _, s := range steps {
		var err error
		if u.lost[s.GPU] {
			err = fmt.Errorf("%s: %w", s.GPU, syscall.ENODEV)
			tell(s, true, nil)
			tell(s, false, err)
		} else {
			err = u.sliced.Execute(ctx, []partition.Step{s}, tell)
		}
		errs = append(errs, err)
		for _, g := range u.gpus {
			for _, i := range u.common[g.Address] {
				if !slices.ContainsFunc(g.MIG.Instances, func(o partition.Instance) bool { return same(i, o) }) {
					u.t.Errorf("%s: %s lost %s@%d, which stays", u.when, g.Address, i.Profile, i.Start)
				}
			}
		}
	}
	return errors.Join(errs...)
}

// fullError is the error of a driver without room for an instance.
type fullError struct{ gpu partition.Address }

func (e fullError) Error() string               { return string(e.gpu) + ": insufficient resources" }
func (e fullError) NoRoomOn() partition.Address { return e.gpu }

// random adds faults: an instance is in use at its destruction, the driver has no room for a new one, or a
// GPU is lost while another one changes.
func (u *unreliable) random(rng *rand.Rand) {
	faults := make(map[partition.Address]error)
	gone := partition.Address("")
	for _, g := range u.gpus {
		switch rng.IntN(6) {
		case 0:
			faults[g.Address] = fmt.Errorf("%s: in use: %w", g.Address, syscall.EBUSY)
		case 1:
			faults[g.Address] = fullError{g.Address}
			delete(u.common, g.Address)
		case 2:
			gone = g.Address
		}
	}
	u.fail = func(s partition.Step) error {
		if gone != "" && s.GPU != gone {
			u.lost[gone], gone = true, ""
		}
		if len(u.lost) > 0 {
			return nil // all is undone, which has no fault of its own
		}
		err := faults[s.GPU]
		if _, full := errors.AsType[fullError](err); err == nil || full != (s.Kind == partition.CreateInstances) {
			return nil
		}
		delete(faults, s.GPU)
		return err
	}
}

// Random changes of four MIG GPUs with random faults, each once. Instances of both geometries stay, unless
// the driver has no room. Each GPU has its old or its new geometry afterwards, and the next run completes
// the change.
func TestEachGPU_RandomMIG(t *testing.T) {
	geometries := []string{"7g.80gb", "4g.40gb 3g.40gb", "3g.40gb 3g.40gb", "3g.40gb 2g.20gb 1g.10gb", "4g.40gb 1g.10gb 1g.10gb", "2g.20gb 2g.20gb 1g.10gb", "3g.40gb 1g.10gb 1g.10gb 1g.10gb", "1g.10gb 1g.10gb 1g.10gb"}
	opt := Options{Rollback: true, EachGPU: true, DeviceTimeout: time.Minute, StepTimeout: time.Minute, ReloadTimeout: time.Minute}
	results := make(map[runstate.Result]int)
	for n := range uint64(500) {
		rng := rand.New(rand.NewPCG(25, n))
		u := &unreliable{sliced: newSliced(4, "off"), t: t, when: fmt.Sprintf("trial %d", n), lost: make(map[partition.Address]bool), common: make(map[partition.Address][]partition.Instance)}
		var last runstate.Run
		run := func(p partition.Profile) runstate.Run {
			last = Run(t.Context(), nodeOf(u, u), p, opt, NewRecorder(runstate.Run{ID: "test", NoRoom: runstate.NoRoomSince(&last, "")}, slog.New(slog.DiscardHandler), func(runstate.Run) {}))
			return last
		}
		profile := func() partition.Profile {
			p := partition.Profile{Name: "test"}
			for _, g := range u.gpus {
				p.Groups = append(p.Groups, partition.Group{MIG: geometry(geometries[rng.IntN(len(geometries))]), GPUs: []partition.Selector{{Address: g.Address}}})
			}
			return p
		}
		if r := run(profile()); r.Result != runstate.Applied {
			t.Fatalf("%s, before: %s, %+v", u.when, r.Result, r.Error)
		}
		before, target := partition.CurrentLayout(u.gpus), profile()
		u.stays(t, target)
		u.random(rng)
		r := run(target)
		results[r.Result]++
		u.fail, u.common = nil, nil
		for i, g := range u.gpus {
			if want := (partition.Shape{MIG: target.Groups[i].MIG}); !u.lost[g.Address] && !g.Shape().Same(want) && !g.Shape().Same(before.Shapes[g.Address]) {
				t.Errorf("%s: %s was %s, is %s, want %s; %s, %+v", u.when, g.Address, before.Shapes[g.Address], g.Shape(), want, r.Result, r.Error)
			}
		}
		clear(u.lost) // the GPU is back after a reset
		if r := run(target); !r.Result.OK() {
			t.Errorf("%s, without faults: %s, %+v", u.when, r.Result, r.Error)
		}
	}
	t.Logf("results: %v", results)
	if results[runstate.Partial] == 0 || results[runstate.Applied] == 0 || results[runstate.Failed] == 0 {
		t.Errorf("results: want applied, partial and failed among them, got %v", results)
	}
}

// stays records the instances that the change to a profile keeps.
func (u *unreliable) stays(t *testing.T, p partition.Profile) {
	t.Helper()
	devices, err := u.Devices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d, err := Compare(devices, p)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range d.Steps {
		if s.Kept != nil {
			u.common[s.GPU] = s.Kept.Instances
		}
	}
}
