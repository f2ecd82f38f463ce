package made

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"

	"dcm/internal/gpu/partition"
)

// errKilled is the panic of a step at which the process is killed.
var errKilled = errors.New("killed")

// errInUse is the error of an instance that a process uses.
var errInUse = errors.New("in use")

// bench is a GPU, and the steps that can be killed.
type bench struct {
	offered   []partition.InstanceProfile
	instances []partition.Instance
	published []partition.Instance
	inUse     map[int]bool // by the first slot
	kill      int          // the process is killed at this step; negative: at none
}

// step is killed, if it is the turn of this step.
func (b *bench) step() {
	if b.kill--; b.kill == -1 {
		panic(errKilled)
	}
}

func (b *bench) Read(context.Context, partition.Address) (State, error) {
	b.step()
	s := State{Offered: b.offered, Instances: slices.Clone(b.instances), Nodes: make(map[int][]string)}
	for _, i := range b.instances {
		s.Nodes[i.Start] = []string{"/dev/nvidiactl", fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", i.Start)}
	}
	return s, nil
}

func (b *bench) Create(_ context.Context, _ partition.Address, one partition.Instance, _ []partition.Instance) error {
	b.step()
	for _, i := range b.instances {
		if partition.Overlap(b.offered, i, one) {
			return fmt.Errorf("%v overlaps %v", one, i)
		}
	}
	b.instances = append(b.instances, one)
	b.step()
	return nil
}

func (b *bench) Destroy(_ context.Context, _ partition.Address, one partition.Instance, _ []partition.Instance) error {
	b.step()
	if b.inUse[one.Start] {
		return errInUse
	}
	b.instances = slices.DeleteFunc(b.instances, func(i partition.Instance) bool { return i.Start == one.Start && i.Profile == one.Profile })
	b.step()
	return nil
}

func (b *bench) publish(context.Context) error {
	b.step()
	b.published = slices.Clone(b.instances)
	return nil
}

func (b *bench) has(one partition.Instance) bool {
	return slices.ContainsFunc(b.instances, func(i partition.Instance) bool { return i.Start == one.Start && i.Profile == one.Profile })
}

// run calls f, which is killed at a random step or at none.
func (b *bench) run(random *rand.Rand, f func() error) (err error) {
	b.kill = random.IntN(24) // a start or a stop has fewer steps than that
	defer func() {
		if p := recover(); p != nil {
			err = errKilled
		}
	}()
	return f()
}

const gpu = partition.Address("0000:41:00.0")

// h100 has the profiles of an H100 80GB that the trial uses.
func h100() []partition.InstanceProfile {
	return []partition.InstanceProfile{
		{Name: "1g.10gb", InstanceCount: 7, Size: 1, Starts: []int{0, 1, 2, 3, 4, 5, 6}},
		{Name: "2g.20gb", InstanceCount: 3, Size: 2, Starts: []int{0, 2, 4}},
		{Name: "3g.40gb", InstanceCount: 2, Size: 4, Starts: []int{0, 4}},
	}
}

// TestMaker_RandomKills makes and ends instances, and kills each start and stop at a random step. systemd
// stops a unit after its start has failed, and the daemon repeats a stop that has failed.
func TestMaker_RandomKills(t *testing.T) {
	const rounds = 4000
	random := rand.New(rand.NewPCG(1, 2))
	rest := partition.Instance{Profile: "2g.20gb", Start: 2}
	b := &bench{offered: h100(), instances: []partition.Instance{rest}, published: []partition.Instance{rest}, inUse: make(map[int]bool), kill: -1}
	claims := Claims{t.TempDir()}
	m := Maker{Claims: claims, GPUs: b, Publish: b.publish, Retry: func(error) bool { return false }, Log: slog.New(slog.DiscardHandler)}
	held := make(map[Name]bool)
	var left []Name // stops that failed
	makes, kills, refused := 0, 0, 0
	stop := func(n Name) {
		delete(held, n)
		err := b.run(random, func() error { return m.Unmake(t.Context(), n) })
		if errors.Is(err, errKilled) {
			kills++
		}
		if err != nil {
			left = append(left, n)
		}
	}
	for id := range rounds {
		switch {
		case len(held) > 0 && random.IntN(2) == 0:
			for n := range held {
				b.inUse[n.Start] = random.IntN(8) == 0
				stop(n)
				break
			}
		case len(left) > 0 && random.IntN(2) == 0: // the daemon starts the unit again, which ends it
			n := left[0]
			left = left[1:]
			b.inUse[n.Start] = false
			if err := b.run(random, func() error { return m.Make(t.Context(), n) }); errors.Is(err, errKilled) {
				kills++
			}
			stop(n)
		default:
			profile := b.offered[random.IntN(len(b.offered))].Name
			slot, err := partition.NextSlot(b.offered, b.published, profile)
			if err != nil {
				refused++
				continue
			}
			n := Name{Lease: fmt.Sprintf("dcm-lease-1000-%08x.scope", id), GPU: gpu, Profile: profile, Start: slot.Start}
			err = b.run(random, func() error { return m.Make(t.Context(), n) })
			if makes++; errors.Is(err, errKilled) {
				kills++
			}
			if err != nil {
				stop(n)
				break
			}
			held[n] = true
		}
		if !b.has(rest) {
			t.Fatalf("round %d: the instance of the profile was destroyed", id)
		}
		for n := range held {
			if !b.has(n.Instance()) {
				t.Fatalf("round %d: the instance of %s was destroyed", id, n)
			}
		}
	}
	clear(b.inUse)
	for n := range held {
		stop(n)
	}
	for len(left) > 0 {
		n := left[0]
		left = left[1:]
		stop(n)
	}
	names, err := claims.List()
	if err != nil || len(names) > 0 || len(b.instances) != 1 || len(b.published) != 1 {
		t.Errorf("at the end: %v, %v and %v listed, %v", names, b.instances, b.published, err)
	}
	t.Logf("%d makes, %d kills, %d without room", makes, kills, refused)
	if makes < 1000 || kills < 500 {
		t.Errorf("%d makes with %d kills are too few", makes, kills)
	}
}

func TestName_RoundTrip(t *testing.T) {
	for _, n := range []Name{
		{"dcm-lease-1000-4f1c09aa.scope", gpu, "3g.40gb", 4},
		{"dcm-exclusive-0-00000001.scope", "00010:ff:1f.7", "1g.10gb+me.all", 6},
		{"dcm-lease-4294967295-ffffffff.scope", gpu, "1g.24gb-me", 0},
		{"vllm.service", gpu, "2g.20gb", 4},
		{`a_b\x2dc@d_0.service`, gpu, "1g.10gb+me.all", 0},
	} {
		if got, err := Parse(n.String()); got != n || err != nil {
			t.Errorf("%s: %+v, %v", n, got, err)
		}
	}
	for _, text := range []string{"", "lease-1000-4f1c09aa", "lease-1000-4f1c09aa_0000:41:00.0_1c.3g.40gb_4", "lease-1000-4f1c09aa_0000:41:00.0_3g.40gb_04", "x_0000:41:00.0_3g.40gb_4", "lease-1000-4f1c09aa_41:00.0_3g.40gb_4", "lease-1000-4f1c09aa_0000:41:00.0_3g.40gb_4_5", "vllm.socket_0000:41:00.0_3g.40gb_4", "a/b.service_0000:41:00.0_3g.40gb_4", ".service_0000:41:00.0_3g.40gb_4"} {
		if n, err := Parse(text); err == nil {
			t.Errorf("%q is %+v", text, n)
		}
	}
}

func TestService_RoundTrip(t *testing.T) {
	for text, want := range map[string]Service{
		"2g.20gb_vllm.service":                {"vllm.service", "2g.20gb"},
		`1g.10gb:me.all_a_b\x2dc@d_0.service`: {`a_b\x2dc@d_0.service`, "1g.10gb+me.all"},
	} {
		if got, err := ParseService(text); got != want || err != nil || got.String() != text {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "vllm.service", "2g.20gb", "2g.20gb_vllm.socket", "1c.2g.20gb_vllm.service", "2g.20gb_", "2g.20gb_a/b.service", "lease-1000-4f1c09aa_0000:41:00.0_3g.40gb_4"} {
		if s, err := ParseService(text); err == nil {
			t.Errorf("%q is %+v", text, s)
		}
	}
	if got, want := (Name{"vllm@a.service", gpu, "2g.20gb", 4}).Unit(), "dcm-make@2g.20gb_vllm@a.service.service"; got != want {
		t.Errorf("unit: %s, want %s", got, want)
	}
}
