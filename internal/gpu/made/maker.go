package made

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"dcm/internal/gpu/partition"
)

// State is the state of a GPU.
type State struct {
	Offered   []partition.InstanceProfile
	Instances []partition.Instance
	Nodes     map[int][]string // device nodes by the first slot of an instance, the partition's own node last
}

// ErrNoInstances is returned for a GPU that has no instances: it was removed, or MIG is off.
var ErrNoInstances = errors.New("the GPU has no MIG instances")

// GPUs changes the instances of GPUs.
type GPUs interface {
	Read(ctx context.Context, gpu partition.Address) (State, error)
	Create(ctx context.Context, gpu partition.Address, one partition.Instance, kept []partition.Instance) error
	// Destroy destroys an instance. It is no error if the instance does not exist.
	Destroy(ctx context.Context, gpu partition.Address, one partition.Instance, kept []partition.Instance) error
}

// Maker creates and destroys instances. The caller excludes every other change of the GPUs.
type Maker struct {
	Claims  Claims
	GPUs    GPUs
	Publish func(context.Context) error // publishes the partitions
	Claimed func()                      // called when an instance is claimed, before it is created; nil: no call
	Retry   func(error) bool            // reports whether a later attempt to destroy may succeed
	Delay   time.Duration               // between two attempts
	Log     *slog.Logger
}

// Make creates an instance and links its device nodes. If a claim exists, an earlier start of the unit
// was killed or its instance could not be destroyed: the stop that follows destroys it.
func (m Maker) Make(ctx context.Context, n Name) error {
	if m.Claims.has(n) {
		m.Log.Info("an earlier start has left this instance", "instance", n)
		return nil
	}
	s, err := m.GPUs.Read(ctx, n.GPU)
	if err != nil {
		return err
	}
	if err := m.occupied(n, s); err != nil {
		return err
	}
	if err := m.Claims.add(n); err != nil {
		return err
	}
	if m.Claimed != nil {
		m.Claimed()
	}
	if err := m.GPUs.Create(ctx, n.GPU, n.Instance(), s.Instances); err != nil {
		return err
	}
	if s, err = m.GPUs.Read(ctx, n.GPU); err != nil {
		return err
	}
	return errors.Join(m.Claims.link(n, s.Nodes[n.Start]), m.Publish(ctx))
}

// occupied returns an error if an instance or a claim has one of the slots. The stop of the unit would
// destroy that instance otherwise.
func (m Maker) occupied(n Name, s State) error {
	claims, err := m.Claims.List()
	if err != nil {
		return err
	}
	taken := slices.Clone(s.Instances)
	for _, c := range claims {
		if c.GPU == n.GPU {
			taken = append(taken, c.Instance())
		}
	}
	for _, other := range taken {
		if partition.Overlap(s.Offered, other, n.Instance()) {
			return fmt.Errorf("%s has no room for %s at slot %d: %s is at slot %d", n.GPU, n.Profile, n.Start, other.Profile, other.Start)
		}
	}
	return nil
}

// UnmakeOf destroys the instances of a service and removes their claims, as [Maker.Unmake] does.
func (m Maker) UnmakeOf(ctx context.Context, s Service) error {
	claims, err := m.Claims.List()
	if err != nil {
		return err
	}
	for _, n := range claims {
		if n.Lease == s.Unit && n.Profile == s.Profile {
			err = errors.Join(err, m.Unmake(ctx, n))
		}
	}
	return err
}

// Unmake destroys an instance and removes its claim. It retries until ctx ends while a process uses
// the instance.
func (m Maker) Unmake(ctx context.Context, n Name) error {
	if !m.Claims.has(n) {
		return nil // the unit has created nothing
	}
	for {
		err := m.destroy(ctx, n)
		if err == nil {
			return nil
		}
		if failed := fmt.Errorf("%s at slot %d of %s is not destroyed: %w", n.Profile, n.Start, n.GPU, err); !m.Retry(err) || ctx.Err() != nil {
			return failed
		}
		select {
		case <-ctx.Done():
		case <-time.After(m.Delay):
		}
	}
}

func (m Maker) destroy(ctx context.Context, n Name) error {
	s, err := m.GPUs.Read(ctx, n.GPU)
	if err == nil {
		kept := slices.DeleteFunc(s.Instances, func(i partition.Instance) bool { return i.Start == n.Start && i.Profile == n.Profile })
		err = m.GPUs.Destroy(ctx, n.GPU, n.Instance(), kept)
	}
	if err != nil && !errors.Is(err, ErrNoInstances) {
		return err
	}
	// The claim keeps the partition from other leases while the list still has it.
	if err := m.Publish(ctx); err != nil {
		return err
	}
	return m.Claims.remove(n)
}
