package made

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"dcm/internal/gpu/partition"
)

// trial makes and ends instances of leases and services at random. As systemd does, it stops a unit after a
// failed start. As the daemon does, it repeats a stop that has failed.
type trial struct {
	*testing.T
	*bench
	random *rand.Rand
	maker  Maker
	rest   partition.Instance // of the profile
	held   map[Name]bool
	left   map[string]Name // whose stop has failed, by unit

	makes, kills, refused, reboots int
}

// kill calls f, and may kill it at a random step.
func (t *trial) kill(f func() error) error {
	err := t.run(t.random, f)
	if errors.Is(err, errKilled) {
		t.kills++
	}
	return err
}

// stop ends what a unit has.
func (t *trial) stop(n Name) {
	delete(t.held, n)
	err := t.kill(func() error {
		if n.OfService() {
			return t.maker.UnmakeOf(t.Context(), Service{n.Lease, n.Profile})
		}
		return t.maker.Unmake(t.Context(), n)
	})
	if delete(t.left, n.Unit()); err != nil {
		t.left[n.Unit()] = n
	}
}

// place returns the name with a free placement. Claims have slots too, of instances that are being created
// or remain.
func (t *trial) place(n Name) (Name, error) {
	claims, err := t.maker.Claims.List()
	if err != nil {
		return n, err
	}
	now := slices.Clone(t.published)
	for _, c := range claims {
		if !slices.ContainsFunc(now, func(i partition.Instance) bool { return i.Start == c.Start && i.Profile == c.Profile }) {
			now = append(now, c.Instance())
		}
	}
	slot, err := partition.NextSlot(t.offered, now, n.Profile)
	n.Start = slot.Start
	return n, err
}

// start starts a unit: of a lease, whose name has the placement, or of a service.
func (t *trial) start(n Name) {
	full := false
	place := func() (err error) { n, err = t.place(n); full = err != nil; return err }
	if !n.OfService() && place() != nil {
		t.refused++
		return
	}
	err := t.kill(func() error {
		if n.OfService() {
			if err := t.maker.UnmakeOf(t.Context(), Service{n.Lease, n.Profile}); err != nil {
				return err
			}
			if err := place(); err != nil {
				return err
			}
		}
		return t.maker.Make(t.Context(), n)
	})
	if full {
		t.refused++
	} else {
		t.makes++
	}
	if err != nil {
		t.stop(n)
		return
	}
	delete(t.left, n.Unit())
	t.held[n] = true
}

// reboot removes what the kernel has. The profile is applied again.
func (t *trial) reboot() {
	t.reboots++
	t.instances, t.published = []partition.Instance{t.rest}, []partition.Instance{t.rest}
	clear(t.held)
	clear(t.left)
	clear(t.inUse)
	if err := os.RemoveAll(t.maker.Claims.Dir); err != nil {
		t.Fatal(err)
	}
}

func (t *trial) act(id int) {
	any := func(m map[Name]bool) (one Name) {
		for one = range m {
			break
		}
		return one
	}
	switch {
	case t.random.IntN(200) == 0:
		t.reboot()
	case len(t.held) > 0 && t.random.IntN(2) == 0:
		n := any(t.held)
		t.inUse[n.Start] = t.random.IntN(8) == 0
		t.stop(n)
	case len(t.left) > 0 && t.random.IntN(2) == 0: // the daemon starts the unit again, which ends it
		for _, n := range t.left {
			clear(t.inUse)
			if !n.OfService() {
				_ = t.kill(func() error { return t.maker.Make(t.Context(), n) })
			}
			t.stop(n)
			break
		}
	default:
		n := Name{Lease: fmt.Sprintf("dcm-lease-1000-%08x.scope", id), GPU: gpu, Profile: t.offered[t.random.IntN(len(t.offered))].Name}
		if t.random.IntN(2) == 0 {
			n.Lease = fmt.Sprintf("llm@%d.service", t.random.IntN(4))
		}
		for other := range t.held {
			if n.OfService() && other.Lease == n.Lease {
				return // it is active
			}
		}
		t.start(n)
	}
}

// check compares the instances with the units that have them.
func (t *trial) check(round int) {
	for one := range t.held {
		if !t.has(one.Instance()) {
			t.Fatalf("round %d: the instance of %s was destroyed", round, one)
		}
		for other := range t.held {
			if one != other && partition.Overlap(t.offered, one.Instance(), other.Instance()) {
				t.Fatalf("round %d: %s and %s have the same slots", round, one, other)
			}
		}
	}
	if !t.has(t.rest) {
		t.Fatalf("round %d: the instance of the profile was destroyed", round)
	}
}

// TestMaker_RandomKills kills each start and stop of units at a random step, and reboots in between.
func TestMaker_RandomKills(t *testing.T) {
	const rounds = 16000
	rest := partition.Instance{Profile: "2g.20gb", Start: 2}
	b := &bench{offered: h100(), instances: []partition.Instance{rest}, published: []partition.Instance{rest}, inUse: make(map[int]bool), kill: -1}
	claims := Claims{filepath.Join(t.TempDir(), "made")}
	m := Maker{Claims: claims, GPUs: b, Lock: b.lock, Publish: b.publish, Changed: b.changed, Retry: func(error) bool { return false }, Log: slog.New(slog.DiscardHandler)}
	r := &trial{T: t, bench: b, random: rand.New(rand.NewPCG(1, 2)), maker: m, rest: rest, held: make(map[Name]bool), left: make(map[string]Name)}
	for round := range rounds {
		r.act(round)
		r.check(round)
	}
	clear(b.inUse)
	for n := range r.held {
		r.stop(n)
	}
	for len(r.left) > 0 {
		for _, n := range r.left {
			r.stop(n)
			break
		}
	}
	names, err := claims.List()
	if err != nil || len(names) > 0 || len(b.instances) != 1 || len(b.published) != 1 {
		t.Errorf("at the end: %v, %v and %v listed, %v", names, b.instances, b.published, err)
	}
	t.Logf("%d makes, %d kills, %d reboots, %d without room", r.makes, r.kills, r.reboots, r.refused)
	if r.makes < 5000 || r.kills < 1000 || r.reboots < 20 {
		t.Errorf("%d makes with %d kills and %d reboots are too few", r.makes, r.kills, r.reboots)
	}
}
