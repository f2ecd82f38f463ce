package made

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"dcm/internal/gpu/partition"
)

// ErrNoInstances is returned for a GPU that has no instances: it was removed, or MIG is off.
var ErrNoInstances = errors.New("the GPU has no MIG instances")

// ErrOccupied is returned if another instance has the slots of a new one. Nothing was changed then.
var ErrOccupied = errors.New("the slots are not free")

// GPUs changes the instances of GPUs. The other instances of the GPU stay.
type GPUs interface {
	// Create creates an instance and returns its device nodes, the partition's own node last.
	Create(ctx context.Context, gpu partition.Address, one partition.Instance) (nodes []string, err error)
	// Destroy destroys instances. It is no error if one does not exist.
	Destroy(ctx context.Context, gpu partition.Address, list []partition.Instance) error
}

// Maker creates and destroys instances. The caller excludes runs.
type Maker struct {
	Claims  Claims
	GPUs    GPUs
	Lock    func(partition.Address) (release func(), err error) // excludes other changes of the GPU
	Publish func(context.Context, partition.Address) error      // publishes the partitions of the GPU
	Claimed func()                                              // called when an instance is claimed, before it is created; nil: no call
	Changed func(n Name, exists bool)                           // called after an instance was created or destroyed
	Retry   func(error) bool                                    // reports whether a later attempt to destroy may succeed
	Users   func(context.Context, Name) string                  // names the processes that use an instance; nil: no call
	Delay   time.Duration                                       // between two attempts
	Log     *slog.Logger
}

// Make creates an instance and links its device nodes. If a claim exists, an earlier start of the unit
// was killed or its instance could not be destroyed: the stop that follows destroys it.
func (m Maker) Make(ctx context.Context, n Name) error {
	release, err := m.Lock(n.GPU)
	if err != nil {
		return err
	}
	defer release()
	if m.Claims.has(n) {
		m.Log.Info("an earlier start has left this instance", "instance", n)
		return nil
	}
	if err := m.claimed(n); err != nil {
		return err
	}
	if err := m.Claims.add(n); err != nil {
		return err
	}
	if m.Claimed != nil {
		m.Claimed()
	}
	nodes, err := m.GPUs.Create(ctx, n.GPU, n.Instance())
	if errors.Is(err, ErrOccupied) { // the stop must not destroy that instance
		return errors.Join(err, m.Claims.remove(n))
	}
	if err != nil {
		return err
	}
	m.Changed(n, true)
	return errors.Join(m.Claims.link(n, nodes), m.Publish(ctx, n.GPU))
}

// claimed returns an error if a claim has the same instance. Its stop would destroy that of n.
func (m Maker) claimed(n Name) error {
	claims, err := m.Claims.List()
	if err != nil {
		return err
	}
	for _, c := range claims {
		if c.GPU == n.GPU && !c.IsMode() && c.Start == n.Start && c.Profile == n.Profile {
			return fmt.Errorf("%s has no room for %s at slot %d: %s has it", n.GPU, n.Profile, n.Start, c.Lease)
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

// Unmake destroys an instance and removes its claim, together with other instances of the GPU whose units are
// being stopped. It retries until ctx ends while a process uses the instance.
func (m Maker) Unmake(ctx context.Context, n Name) error {
	if claimed, err := m.Claims.end(n); err != nil || !claimed {
		return err // without a claim, the unit has created nothing
	}
	release, err := m.Lock(n.GPU)
	if err != nil {
		return err
	}
	defer release()
	if reason := retry(ctx, m.Delay, m.Retry, func() error { return m.destroy(ctx, n) }); reason != nil {
		return m.notDestroyed(context.WithoutCancel(ctx), n, reason)
	}
	return nil
}

// notDestroyed records and returns why an instance still exists.
func (m Maker) notDestroyed(ctx context.Context, n Name, reason error) error {
	err := fmt.Errorf("%s at slot %d of %s is not destroyed: %w", n.Profile, n.Start, n.GPU, reason)
	if m.Users != nil {
		if users := m.Users(ctx, n); users != "" {
			err = fmt.Errorf("%w; %s", err, users)
		}
	}
	return errors.Join(err, m.Claims.recordFailure(n, err))
}

// destroy destroys the instances that are ending. If one of them cannot be destroyed, it destroys only that of n.
func (m Maker) destroy(ctx context.Context, n Name) error {
	if !m.Claims.has(n) {
		return nil // the end of another instance has destroyed it
	}
	list, err := m.Claims.endingOn(n.GPU)
	if err != nil {
		return err
	}
	err = m.destroyAll(ctx, n.GPU, list)
	if err != nil && len(list) > 1 {
		list = []Name{n}
		err = m.destroyAll(ctx, n.GPU, list)
	}
	if err != nil {
		return err
	}
	// The claims keep the partitions from other leases while the list still has them.
	if err := m.Publish(ctx, n.GPU); err != nil {
		return err
	}
	for _, n := range list {
		m.Changed(n, false)
		err = errors.Join(err, m.Claims.remove(n))
	}
	return err
}

func (m Maker) destroyAll(ctx context.Context, gpu partition.Address, list []Name) error {
	var instances []partition.Instance
	for _, n := range list {
		instances = append(instances, n.Instance())
	}
	if err := m.GPUs.Destroy(ctx, gpu, instances); !errors.Is(err, ErrNoInstances) {
		return err
	}
	return nil
}
