package amdgpu

import (
	"context"
	"fmt"
	"time"

	"dcm/internal/gpu/partition"
	"dcm/internal/worker/serve"
)

// SMI is AMD's management library, libamd_smi, called through dcm-smi. That program takes
// one request, replies and ends, so that side effects of the library in its process and in
// /tmp do not matter.
type SMI struct {
	Program string        // path of dcm-smi; "": the installed one
	Library string        // path of the library; "": the usual places
	Timeout time.Duration // of a request; 0: 30 s for a read, 2 min for a set
	Trace   bool          // [SMI.Inventory] returns the system calls that the sandbox refused
}

// program is the path of the installed dcm-smi.
const program = "/usr/libexec/dcm/dcm-smi"

// SMILibrary is the library that replied.
type SMILibrary struct {
	File    string
	Version string // "27.1.0"; "" if unknown
	// Why this version cannot set the mode; "" if it can.
	NoCompute, NoMemory string
}

func (l SMILibrary) String() string {
	if l.Version == "" {
		return "amdsmi of unknown version"
	}
	return "amdsmi " + l.Version
}

// SMIGPU has the library's facts about a GPU. An unknown fact is "", and Notes has the
// reason.
type SMIGPU struct {
	Address                                                    partition.Address
	Name, Serial, UUID, Compute, Memory, Driver, DriverVersion string
	Notes                                                      []string
}

// SMIInventory has the library's facts about all GPUs.
type SMIInventory struct {
	Library SMILibrary
	GPUs    []SMIGPU
	Refused []serve.Refusal
}

// SMISet is a change through the library.
type SMISet struct {
	Library       SMILibrary
	Number        uint32 // number of the mode in this version of the library
	Before, After string // read through the library
}

// Version returns the installed library.
func (s SMI) Version(ctx context.Context) (SMILibrary, error) {
	reply, err := s.call(ctx, smiRequest{Do: "version"})
	return reply.library(), err
}

// Inventory reads all GPUs through the library.
func (s SMI) Inventory(ctx context.Context) (SMIInventory, error) {
	reply, err := s.call(ctx, smiRequest{Do: "inventory", Trace: s.Trace})
	out := SMIInventory{Library: reply.library(), Refused: reply.Refused}
	for _, g := range reply.GPUs {
		out.GPUs = append(out.GPUs, SMIGPU{
			Address: g.Address, Name: g.Name, Serial: g.Serial, UUID: g.UUID, Compute: g.Compute, Memory: g.Memory,
			Driver: g.Driver, DriverVersion: g.DriverVersion, Notes: g.Notes,
		})
	}
	return out, err
}

// SetCompute switches a GPU's compute mode and reads it back through the library. The undo
// is SetCompute with Before.
func (s SMI) SetCompute(ctx context.Context, gpu partition.Address, to partition.Compute) (SMISet, error) {
	return s.set(ctx, smiRequest{Do: "set-compute", GPU: gpu, Mode: string(to)})
}

// SetMemory requests the memory mode; see [Node.SetMemory]. dcm-smi prevents the library
// from reloading the driver.
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
		err = s.fail(r, "garbage", fmt.Errorf("the reply is for %+v", reply.Set))
	}
	return out, err
}
