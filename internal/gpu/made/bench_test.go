package made

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

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
	calls     int          // of Destroy
	kill      int          // the process is killed at this step; negative: at none
}

// step is killed, if it is the turn of this step.
func (b *bench) step() {
	if b.kill--; b.kill == -1 {
		panic(errKilled)
	}
}

func (b *bench) Create(_ context.Context, _ partition.Address, one partition.Instance) ([]string, error) {
	b.step()
	for _, i := range b.instances {
		if partition.Overlap(b.offered, i, one) {
			return nil, fmt.Errorf("%w: %v overlaps %v", ErrOccupied, one, i)
		}
	}
	b.instances = append(b.instances, one)
	b.step()
	return []string{"/dev/nvidiactl", fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", one.Start)}, nil
}

func (b *bench) Destroy(_ context.Context, _ partition.Address, list []partition.Instance) error {
	b.calls++
	for _, one := range list {
		b.step()
		if b.inUse[one.Start] {
			return errInUse
		}
		b.instances = slices.DeleteFunc(b.instances, func(i partition.Instance) bool { return i.Start == one.Start && i.Profile == one.Profile })
		b.step()
	}
	return nil
}

func (b *bench) changed(Name, bool) { b.step() }

func (b *bench) lock(partition.Address) (func(), error) { return func() {}, nil }

func (b *bench) publish(context.Context, partition.Address) error {
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
