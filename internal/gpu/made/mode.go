package made

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"dcm/internal/gpu/partition"
)

// ModeState is the state of a GPU with compute modes.
type ModeState struct {
	Compute   partition.Compute
	Available []partition.Compute // with its present memory mode; nil: unknown
	Rest      partition.Compute   // mode of the GPU in the profile; "" if the profile has none
	Nodes     []string            // device nodes of the partitions, by index
	Users     []string            // processes that use the GPU
}

// ErrNoModes is returned for a GPU that has no compute modes: it was removed, or its driver is not loaded.
var ErrNoModes = errors.New("the GPU has no compute modes")

// InUseError is returned if processes use a GPU that is to be switched.
type InUseError struct {
	GPU   partition.Address
	Users []string
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("%s is in use by %s", e.GPU, strings.Join(e.Users, ", "))
}

// ModeGPUs switches the compute modes of GPUs.
type ModeGPUs interface {
	Read(ctx context.Context, gpu partition.Address) (ModeState, error)
	Switch(ctx context.Context, gpu partition.Address, from, to partition.Compute) error
}

// Switcher switches GPUs to the modes of leases, and back. The caller excludes every other change of the
// GPUs. It changes no memory mode and loads no driver.
type Switcher struct {
	Claims  Claims
	GPUs    ModeGPUs
	Publish func(context.Context) error // publishes the partitions
	// Prove is called before a switch for leases, and done after it. They return an error if it is not known
	// whether the GPU can be switched back while other GPUs are in use. nil: not called
	Prove func(ctx context.Context, gpu partition.Address) (done func() error, err error)
	Retry func(error) bool // reports whether a later attempt to switch back may succeed
	Delay time.Duration    // between two attempts
	Log   *slog.Logger
}

// Make switches the GPU and links the device nodes. If a claim exists, an earlier start of the unit was
// killed, or the GPU could not be switched back. Then Make never switches: it returns an error unless
// the GPU has the mode. The stop that follows an error removes what is left.
func (s Switcher) Make(ctx context.Context, n Name) error {
	state, err := s.GPUs.Read(ctx, n.GPU)
	if err != nil {
		return err
	}
	to := partition.Compute(n.Profile)
	if s.Claims.has(n) {
		if state.Compute != to {
			return fmt.Errorf("%s is still to be switched back (found %s, want %s)", n.GPU, state.Compute, to)
		}
		s.Log.Info("the GPU has the mode already", "gpu", n.GPU, "mode", to)
		if err := s.Claims.clearFailure(n); err != nil {
			return err
		}
	} else {
		if err := s.admits(n, state); err != nil {
			return err
		}
		if err := s.Claims.add(n); err != nil {
			return err
		}
		if state.Compute != to {
			if err := s.prove(ctx, n, state.Compute); err != nil {
				return err
			}
			if state, err = s.GPUs.Read(ctx, n.GPU); err != nil {
				return err
			}
		}
	}
	// The list comes first: a lease of the links has its partitions there.
	if err := s.Publish(ctx); err != nil {
		return err
	}
	return s.Claims.relink(n, state.Nodes)
}

// prove switches the GPU for leases.
func (s Switcher) prove(ctx context.Context, n Name, from partition.Compute) error {
	done := func() error { return nil }
	if s.Prove != nil {
		var err error
		if done, err = s.Prove(ctx, n.GPU); err != nil {
			return err
		}
	}
	err := s.GPUs.Switch(ctx, n.GPU, from, partition.Compute(n.Profile))
	if unknown := done(); err == nil {
		err = unknown
	}
	return err
}

// admits returns an error if the GPU must not be switched: leases or another change have set its mode,
// or a process uses it.
func (s Switcher) admits(n Name, state ModeState) error {
	claims, err := s.Claims.List()
	if err != nil {
		return err
	}
	for _, c := range claims {
		if c.GPU == n.GPU {
			return fmt.Errorf("%s has the mode of other leases: %s", n.GPU, c.Profile)
		}
	}
	switch {
	case state.Compute != n.Rest:
		return fmt.Errorf("%s is not in its mode (found %s, want %s)", n.GPU, state.Compute, n.Rest)
	case len(state.Users) > 0:
		return &InUseError{n.GPU, state.Users}
	}
	return nil
}

// Unmake switches the GPU back and removes the claim. It retries until ctx ends while a process uses the
// GPU.
func (s Switcher) Unmake(ctx context.Context, n Name) error {
	if !s.Claims.has(n) {
		return nil // the unit has changed nothing
	}
	if reason := retry(ctx, s.Delay, s.Retry, func() error { return s.restore(ctx, n) }); reason != nil {
		failed := fmt.Errorf("%s stays in %s: %w", n.GPU, n.Profile, reason)
		return errors.Join(failed, s.Claims.recordFailure(n, failed))
	}
	return nil
}

func (s Switcher) restore(ctx context.Context, n Name) error {
	state, err := s.GPUs.Read(ctx, n.GPU)
	if err != nil && !errors.Is(err, ErrNoModes) {
		return err
	}
	rest := n.Rest
	if state.Rest != "" { // the profile has changed
		rest = state.Rest
	}
	switch {
	case err != nil: // the GPU is gone
	case state.Compute != partition.Compute(n.Profile), state.Compute == rest:
	case state.Available != nil && !slices.Contains(state.Available, rest):
		s.Log.Warn(fmt.Sprintf("%s stays %s: it cannot be %s with its memory mode", n.GPU, state.Compute, rest))
	case len(state.Users) > 0:
		return &InUseError{n.GPU, state.Users}
	default:
		if err := s.GPUs.Switch(ctx, n.GPU, state.Compute, rest); err != nil {
			return err
		}
		if err := s.Claims.switchedBack(n); err != nil {
			s.Log.Warn(err.Error()) // the GPU may be switched again sooner
		}
	}
	// The claim keeps the partitions from other leases while the list still has them.
	if err := s.Publish(ctx); err != nil {
		return err
	}
	return s.Claims.remove(n)
}
