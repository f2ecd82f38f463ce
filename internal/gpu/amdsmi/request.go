package amdsmi

import (
	"bytes"
	"encoding/json"

	"dcm/internal/gpu/partition"
	"dcm/internal/worker/serve"
)

// Op is the operation of a request.
type Op string

// Operations.
const (
	TellVersion Op = "version"
	Inventory   Op = "inventory"
	SetCompute  Op = "set-compute"
	SetMemory   Op = "set-memory"
)

// Request is one operation.
type Request struct {
	Do      Op                `json:"do"`
	Library string            `json:"library,omitempty"` // "": the usual places
	GPU     partition.Address `json:"gpu,omitempty"`
	Mode    string            `json:"mode,omitempty"`
	Trace   bool              `json:"trace,omitempty"` // the reply has the system calls that the sandbox refused; only for a read
}

// ParseRequest parses one JSON object. An unknown key, GPU or mode is an error.
func ParseRequest(data []byte) (Request, error) {
	var r Request
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return Request{}, fail(BadRequest, "not a request: %w", err)
	}
	if d.More() {
		return Request{}, fail(BadRequest, "not a request: text follows the object")
	}
	return r, r.check()
}

// Looks reports whether the request changes nothing.
func (r Request) Looks() bool { return r.Do == TellVersion || r.Do == Inventory }

func (r Request) check() error {
	var err error
	switch r.Do {
	case TellVersion, Inventory:
		if r.GPU != "" || r.Mode != "" {
			return fail(BadRequest, "%q takes neither gpu nor mode", r.Do)
		}
		return nil
	}
	if r.Trace {
		return fail(BadRequest, "%q takes no trace", r.Do)
	}
	switch r.Do {
	case SetCompute:
		_, err = partition.ParseCompute(r.Mode)
	case SetMemory:
		_, err = partition.ParseMemory(r.Mode)
	default:
		return fail(BadRequest, "unknown request %q: accepted are %s", r.Do,
			partition.List([]Op{TellVersion, Inventory, SetCompute, SetMemory}))
	}
	if err != nil {
		return fail(BadRequest, "%w", err)
	}
	if a, err := partition.ParseAddress(string(r.GPU)); err != nil || a != r.GPU {
		return fail(BadRequest, "gpu must be a PCI address like 0000:0c:00.0, not %q", r.GPU)
	}
	return nil
}

// Reply is the reply to a request.
type Reply struct {
	Library string   `json:"library,omitempty"`
	Version string   `json:"version,omitempty"`
	Compute *Known   `json:"compute,omitempty"`
	Memory  *Known   `json:"memory,omitempty"`
	GPUs    []GPU    `json:"gpus,omitempty"`
	Set     *Set     `json:"set,omitempty"`
	Error   *Failure `json:"error,omitempty"`

	Refused []serve.Refusal `json:"refused,omitempty"` // for a request with trace
}

// Known reports whether the mode numbers of the library are known.
type Known struct {
	Known bool   `json:"known"`
	Why   string `json:"why,omitempty"` // why they are not
}

// GPU has the library's facts about one GPU. An unknown fact is "", and Notes has the
// reason.
type GPU struct {
	Address       partition.Address `json:"address"`
	Name          string            `json:"name,omitempty"`
	Vendor        uint16            `json:"vendor,omitempty"`
	Device        uint16            `json:"device,omitempty"`
	Serial        string            `json:"serial,omitempty"`
	UUID          string            `json:"uuid,omitempty"`
	Compute       string            `json:"compute,omitempty"`
	Memory        string            `json:"memory,omitempty"`
	Driver        string            `json:"driver,omitempty"`
	DriverVersion string            `json:"driverVersion,omitempty"`
	Notes         []string          `json:"notes,omitempty"`
}

// Set is an attempted change.
type Set struct {
	GPU      partition.Address `json:"gpu"`
	Mode     string            `json:"mode"`
	Number   uint32            `json:"number"`   // passed to the library
	Function string            `json:"function"` // function of the library
	Before   string            `json:"before,omitempty"`
	After    string            `json:"after,omitempty"` // of a memory mode: the old one until the driver is reloaded
}
