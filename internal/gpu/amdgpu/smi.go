package amdgpu

import (
	"context"
	"fmt"
	"time"

	"dcm/internal/gpu/partition"
)

// SMI is AMD's management library, libamd_smi, reached through dcm-smi: a
// program that takes one request, answers it and ends. What the library does to
// its process, and what it leaves in /tmp, is then no matter.
type SMI struct {
	Program string        // dcm-smi; "": where the packages put it
	Library string        // the library's file; "": the usual places
	Timeout time.Duration // for one request; 0: half a minute for reading, two minutes for a set
}

// program is where the packages install dcm-smi.
const program = "/usr/libexec/dcm/dcm-smi"

// SMILibrary is the library that answered.
type SMILibrary struct {
	File    string
	Version string // "27.1.0"; "" where it could not be told
	// Why modes cannot be set through this version; "" if they can.
	NoCompute, NoMemory string
}

func (l SMILibrary) String() string {
	if l.Version == "" {
		return "amdsmi of unknown version"
	}
	return "amdsmi " + l.Version
}

// SMIGPU is what the library tells of a GPU; "" where it tells nothing, and
// then Notes has the reason.
type SMIGPU struct {
	Address                                                    partition.Address
	Name, Serial, UUID, Compute, Memory, Driver, DriverVersion string
	Notes                                                      []string
}

// SMIInventory is what the library tells of all GPUs.
type SMIInventory struct {
	Library SMILibrary
	GPUs    []SMIGPU
}

// SMISet is a change made through the library.
type SMISet struct {
	Library       SMILibrary
	Number        uint32 // what the mode is to this version of the library
	Before, After string // as the library reads them
}

// Version tells which library is there.
func (s SMI) Version(ctx context.Context) (SMILibrary, error) {
	reply, err := s.call(ctx, smiRequest{Do: "version"})
	return reply.library(), err
}

// Inventory asks the library for all GPUs.
func (s SMI) Inventory(ctx context.Context) (SMIInventory, error) {
	reply, err := s.call(ctx, smiRequest{Do: "inventory"})
	out := SMIInventory{Library: reply.library()}
	for _, g := range reply.GPUs {
		out.GPUs = append(out.GPUs, SMIGPU{
			Address: g.Address, Name: g.Name, Serial: g.Serial, UUID: g.UUID, Compute: g.Compute, Memory: g.Memory,
			Driver: g.Driver, DriverVersion: g.DriverVersion, Notes: g.Notes,
		})
	}
	return out, err
}

// SetCompute switches a GPU's compute mode, and has the library read it back.
// The undo is SetCompute with Before.
func (s SMI) SetCompute(ctx context.Context, gpu partition.Address, to partition.Compute) (SMISet, error) {
	return s.set(ctx, smiRequest{Do: "set-compute", GPU: gpu, Mode: string(to)})
}

// SetMemory records a request for the memory mode; see [Node.SetMemory]. The
// library's own reload of the driver is kept from happening.
func (s SMI) SetMemory(ctx context.Context, gpu partition.Address, to partition.Memory) (SMISet, error) {
	return s.set(ctx, smiRequest{Do: "set-memory", GPU: gpu, Mode: string(to)})
}

func (s SMI) set(ctx context.Context, r smiRequest) (SMISet, error) {
	reply, err := s.call(ctx, r)
	out := SMISet{Library: reply.library()}
	if reply.Set != nil {
		out.Number, out.Before, out.After = reply.Set.Number, reply.Set.Before, reply.Set.After
	}
	if err == nil && (reply.Set == nil || reply.Set.GPU != r.GPU || reply.Set.Mode != r.Mode) {
		err = s.fail(r, "garbage", fmt.Errorf("its answer is for %+v", reply.Set))
	}
	return out, err
}
