package lease

import (
	"slices"
	"strings"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
)

// atRest returns the snapshot as it is when every GPU whose mode leases have set was switched back.
func (s Snapshot) atRest() Snapshot {
	if len(s.Switched) == 0 {
		return s.withGPUs(func(g DynamicGPU) DynamicGPU { return g.atRest() })
	}
	gpus, _ := s.modeGPUs() // without one its partitions are not known
	was := s.Parts
	s.Parts = nil
	done := make(map[partition.Address]bool)
	for _, part := range was {
		claim, switched := s.Switched[part.GPU]
		if !switched {
			s.Parts = append(s.Parts, part)
			continue
		}
		if done[part.GPU] {
			continue
		}
		done[part.GPU] = true
		n := 1
		if i := slices.IndexFunc(gpus, func(g DynamicGPU) bool { return g.GPU == part.GPU }); i >= 0 {
			n = claim.Rest.Partitions(gpus[i].Modes.XCC)
		}
		for i := range n {
			one := runstate.Part{Name: runstate.PartName(part.GPU, i), GPU: part.GPU, Index: i, NUMA: part.NUMA, Hive: part.Hive}
			one.Kind = strings.Replace(part.Kind, claim.Profile, string(claim.Rest), 1)
			s.Parts = append(s.Parts, one)
		}
	}
	s.Switched = nil
	return s.withGPUs(func(g DynamicGPU) DynamicGPU { return g.atRest() })
}

// matchesLater returns an [InsufficientError] instead of err if partitions match the request when the GPUs
// are switched back.
func (s Snapshot) matchesLater(r Request, err error) error {
	if len(s.Switched) == 0 {
		return err
	}
	if _, never := r.Sought.Match(KindsOf(s.atRest().Parts)); never != nil {
		return err
	}
	var holders []string
	for _, claim := range s.Switched {
		holders = append(holders, claim.Unit())
	}
	return &InsufficientError{Err: err, Holders: unique(holders)}
}

// atRest returns the GPU without leases and other users.
func (g DynamicGPU) atRest() DynamicGPU {
	g.Awaited = ""
	if g.Modes != nil {
		m := *g.Modes
		m.Now, m.Users, m.Recent, m.Returning = m.Rest, nil, "", false
		g.Modes = &m
	}
	return g
}
