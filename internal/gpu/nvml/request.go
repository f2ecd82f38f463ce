package nvml

import (
	"bytes"
	"encoding/json"
	"slices"

	"dcm/internal/gpu/partition"
)

// Op is the operation of a request.
type Op string

// Operations.
const (
	Look  Op = "look"
	Mode  Op = "mode"
	Fill  Op = "fill"
	Clear Op = "clear"
)

// Request is one operation.
type Request struct {
	Do      Op     `json:"do"`
	Library string `json:"library,omitempty"` // "": the usual places

	// For a read:
	GPUs  []partition.Address `json:"gpus,omitempty"`
	Usage bool                `json:"usage,omitempty"`
	Nodes bool                `json:"nodes,omitempty"` // missing device nodes may be created, since a change follows
	Trace bool                `json:"trace,omitempty"` // the reply has the system calls that the sandbox refused

	// For a change:
	GPU       partition.Address    `json:"gpu,omitempty"`
	On        *bool                `json:"on,omitempty"`
	Instances []partition.Instance `json:"instances,omitempty"` // to create or to destroy; to destroy, nil: all
}

// MaxGPUs is the maximum number of GPUs of a read. The driver has 32 minors for GPUs with
// MIG.
const MaxGPUs = 64

// MaxInstances is the maximum number of instances to create or to destroy.
const MaxInstances = 32

// ParseRequest parses one JSON object. An unknown key, or one that the operation does not
// use, is an error.
func ParseRequest(data []byte) (Request, error) {
	var r Request
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return Request{}, Fail(BadRequest, "not a request: %w", err)
	}
	if d.More() {
		return Request{}, Fail(BadRequest, "not a request: text follows the object")
	}
	return r, r.Check()
}

// Looks reports whether the request changes nothing.
func (r Request) Looks() bool { return r.Do == Look }

// Check returns the error of an invalid request.
func (r Request) Check() error {
	if !slices.Contains([]Op{Look, Mode, Fill, Clear}, r.Do) {
		return Fail(BadRequest, "unknown request %q: accepted are %s", r.Do, partition.List([]Op{Look, Mode, Fill, Clear}))
	}
	if r.Looks() {
		return r.checkLook()
	}
	switch {
	case len(r.GPUs) > 0 || r.Usage || r.Nodes || r.Trace:
		return Fail(BadRequest, "%q takes neither gpus nor usage nor nodes", r.Do)
	case (r.On != nil) != (r.Do == Mode):
		return Fail(BadRequest, "%q needs on, and no other request has it", Mode)
	case r.Do == Fill && len(r.Instances) == 0:
		return Fail(BadRequest, "%q needs instances", Fill)
	case r.Do == Mode && len(r.Instances) > 0:
		return Fail(BadRequest, "%q takes no instances", Mode)
	case len(r.Instances) > MaxInstances:
		return Fail(BadRequest, "%d instances: at most %d", len(r.Instances), MaxInstances)
	}
	for _, i := range r.Instances {
		if err := checkInstance(i); err != nil {
			return err
		}
	}
	return checkAddress(r.GPU)
}

func (r Request) checkLook() error {
	if r.GPU != "" || r.On != nil || len(r.Instances) > 0 {
		return Fail(BadRequest, "%q takes neither gpu nor on nor instances", r.Do)
	}
	if len(r.GPUs) > MaxGPUs {
		return Fail(BadRequest, "%d GPUs: at most %d", len(r.GPUs), MaxGPUs)
	}
	for _, a := range r.GPUs {
		if err := checkAddress(a); err != nil {
			return err
		}
	}
	return nil
}

func checkAddress(gpu partition.Address) error {
	if a, err := partition.ParseAddress(string(gpu)); err != nil || a != gpu {
		return Fail(BadRequest, "a GPU must be a PCI address like 0000:41:00.0, not %q", gpu)
	}
	return nil
}

func checkInstance(i partition.Instance) error {
	gi, err := partition.ParseMIGProfile(i.Profile)
	switch {
	case err != nil:
		return Fail(BadRequest, "%w", err)
	case gi.Compute != 0 || gi.String() != i.Profile:
		return Fail(BadRequest, "%q is not the profile of a GPU instance", i.Profile)
	case i.Start < 0 || i.Start > 63:
		return Fail(BadRequest, "%s at slot %d: a slot must be 0 to 63", i.Profile, i.Start)
	}
	for _, name := range i.Compute {
		if ci, err := partition.ParseMIGProfile(name); err != nil || ci.GPUInstance() != i.Profile || ci.String() != name {
			return Fail(BadRequest, "%q is not the profile of a compute instance in %s", name, i.Profile)
		}
	}
	if len(i.Compute) > gi.Slices {
		return Fail(BadRequest, "%d compute instances in %s: it has %d slices", len(i.Compute), i.Profile, gi.Slices)
	}
	return nil
}
