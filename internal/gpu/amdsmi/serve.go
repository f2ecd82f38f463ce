package amdsmi

import (
	"errors"

	"dcm/internal/gpu/partition"
	"dcm/internal/worker/sandbox"
)

// Serve executes a request. The library stays loaded, so the process should end soon.
func Serve(r Request, trust sandbox.Trust) Reply {
	if err := r.check(); err != nil {
		return Reply{Error: failure(err)}
	}
	var reply Reply
	lib, err := load(Candidates(r.Library, "/"), trust)
	if lib != nil {
		reply.Library = lib.file
	}
	if err == nil {
		err = answer(lib, r, &reply)
	}
	reply.Error = failure(err)
	return reply
}

func answer(lib *library, r Request, reply *Reply) error {
	if err := lib.start(); err != nil {
		return err
	}
	// An unknown version can still be read, since modes are text. The error is returned for
	// a set.
	v, n, forbids := identify(lib, reply)
	var err error
	switch r.Do {
	case TellVersion:
		if v.Text == "" {
			err = forbids
		}
	case Inventory:
		err = inventory(lib, n, reply)
	default:
		err = set(lib, r, v, n, forbids, reply)
	}
	if err != nil {
		return err
	}
	if status := lib.shutDown(); status != 0 && r.Do != Inventory && r.Do != TellVersion {
		return failStatus(Unusable, status, "cannot shut %s down", lib.file)
	}
	return nil
}

// identify finds the numbering of the library and sets it in the reply.
func identify(lib *library, reply *Reply) (Version, Numbering, error) {
	v, err := lib.readVersion()
	if err != nil {
		reply.Compute, reply.Memory = known(err), known(err)
		return Version{}, Numbering{}, err
	}
	reply.Version = v.Text
	n, err := numberingOf(v, lib.has)
	if err != nil {
		reply.Compute, reply.Memory = known(err), known(err)
		return v, Numbering{}, fail(UnknownNumber, "%w", err)
	}
	_, noCompute := n.computeNumber(v, partition.SPX)
	noCompute = errors.Join(noCompute, lib.canSetCompute())
	_, noMemory := n.memoryNumber(v, partition.NPS1)
	reply.Compute, reply.Memory = known(noCompute), known(noMemory)
	return v, n, nil
}

func known(err error) *Known {
	if err != nil {
		return &Known{Why: err.Error()}
	}
	return &Known{Known: true}
}

func inventory(lib *library, n Numbering, reply *Reply) error {
	found, err := lib.gpus()
	if err != nil {
		return err
	}
	for _, p := range found {
		reply.GPUs = append(reply.GPUs, lib.describe(p, n))
	}
	return nil
}
