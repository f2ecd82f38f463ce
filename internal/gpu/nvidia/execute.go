package nvidia

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"dcm/internal/gpu"
	"dcm/internal/gpu/nvml"
	"dcm/internal/gpu/partition"
)

// executor changes the GPUs. It is a [gpu.Executor].
type executor struct {
	host      host
	client    *client
	inventory *inventory
}

// Execute runs steps concurrently, each for one GPU in a dcm-nvml of its own. Other GPUs are not
// affected. The steps run concurrently because a reset of a GPU takes seconds.
func (n *executor) Execute(ctx context.Context, steps []partition.Step, onStep gpu.StepFunc) error {
	var all sync.WaitGroup
	var mu sync.Mutex
	errs := make([]error, len(steps))
	notify := func(s partition.Step, started bool, err error) {
		mu.Lock()
		defer mu.Unlock()
		onStep(s, started, err)
	}
	for i, s := range steps {
		all.Go(func() {
			notify(s, true, nil)
			errs[i] = n.host.addKernelHolders(n.executeStep(ctx, s))
			notify(s, false, errs[i])
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// executeStep runs a step and compares the geometry that was read back. dcm-nvml has compared the instances of
// the step.
func (n *executor) executeStep(ctx context.Context, s partition.Step) error {
	r, want, err := request(s)
	if err != nil {
		return err
	}
	reply, err := n.client.call(ctx, r)
	if err != nil {
		return err
	}
	if len(reply.GPUs) != 1 || reply.GPUs[0].Address != s.GPU {
		return &Error{Op: r.Do, GPU: s.GPU, Kind: nvml.Garbage, Text: "the reply is not about the changed GPU"}
	}
	g := reply.GPUs[0]
	if g.Error != nil {
		return failure(r.Do, s.GPU, g.Error)
	}
	if got := geometry(g); !s.Alone && (g.MIG == nil || got.Off != want.Off || s.Kind != partition.SetMIGMode && !got.Same(want)) {
		return &Error{Op: r.Do, GPU: s.GPU, Kind: nvml.Mismatch, Text: fmt.Sprintf("the library reported success, but the GPU has %s (want %s)", got, want)}
	}
	n.inventory.changed(reply)
	return nil
}

// request returns the request for a step and the geometry to read back.
func request(s partition.Step) (nvml.Request, partition.MIG, error) {
	r := nvml.Request{GPU: s.GPU}
	switch s.Kind {
	case partition.DestroyInstances:
		r.Do = nvml.Clear
		if (s.Kept != nil || s.Alone) && s.MIG != nil {
			r.Instances = s.MIG.Instances
		}
		return r, s.Geometry(), nil
	case partition.SetMIGMode:
		on := s.On()
		r.Do, r.On = nvml.Mode, &on
		return r, partition.MIG{Off: !on}, nil
	case partition.CreateInstances:
		if s.MIG != nil {
			r.Do, r.Instances = nvml.Fill, s.MIG.Instances
			return r, s.Geometry(), nil
		}
	}
	return r, partition.MIG{}, fmt.Errorf("%q is not a step for NVIDIA GPUs", s)
}
