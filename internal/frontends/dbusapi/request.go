package dbusapi

import (
	"fmt"
	"slices"
	"time"

	"github.com/godbus/dbus/v5"

	"dcm/internal/sanitize"
)

// Request describes the requested lease.
type Request struct {
	Partitions, GPUs int
	NamedGPUs        []string // GPUs to have, by index or PCI address: "3", "0000:65:00.0"; empty for any
	NamedPartitions  []string // partitions to have: "0000:65:00.0-1", "65-1"; empty for any
	Place            string   // placement rule; "" for the default
	Vendor, Mode     string   // for example "nvidia" and "3g.40gb"; "" for any
	Make             string   // the profile of a MIG instance to make for the lease, "3g.40gb"; "" for existing partitions
	Exclusive        bool
	Share            int           // number of leases that may share the partitions; 0 for no sharing
	Wait             bool          // wait in the queue until enough partitions are free
	WaitLimit        time.Duration // the longest wait; 0 for no limit
	Hold             bool          // other processes of the user may enter the lease, see [LeaseService.Enter]
	DryRun           bool          // only report what would be granted
	Time             time.Duration // time limit of the lease; 0 for none
	Command          string        // the program of the caller, for the description of the lease

	// Queued, if not nil, is called when the request enters the queue, and when its
	// position has changed.
	Queued func(QueuePosition)
}

// QueuePosition is the position of a request in the queue.
type QueuePosition struct {
	At, Of int // the first position is 1
	Reason string
}

// option is an option of the method Acquire.
type option struct {
	name string
	to   any // pointer to the field of [Request]
}

// options lists the options. The D-Bus type of a number is u. That of a time is t, in microseconds.
func (r *Request) options() []option {
	return []option{
		{"partitions", &r.Partitions}, {"gpus", &r.GPUs}, {"named-gpus", &r.NamedGPUs}, {"named-partitions", &r.NamedPartitions}, {"place", &r.Place}, {"vendor", &r.Vendor}, {"mode", &r.Mode}, {"make", &r.Make}, {"exclusive", &r.Exclusive}, {"share", &r.Share},
		{"wait", &r.Wait}, {"wait-limit", &r.WaitLimit}, {"dry-run", &r.DryRun}, {"hold", &r.Hold}, {"time", &r.Time}, {"command", &r.Command},
	}
}

// encode returns the options for the bus, without those that have their zero value.
func (r Request) encode() map[string]dbus.Variant {
	out := make(map[string]dbus.Variant)
	for _, o := range r.options() {
		switch v := o.to.(type) {
		case *int:
			if *v > 0 {
				out[o.name] = dbus.MakeVariant(uint32(*v))
			}
		case *[]string:
			if len(*v) > 0 {
				out[o.name] = dbus.MakeVariant(*v)
			}
		case *string:
			if *v != "" {
				out[o.name] = dbus.MakeVariant(*v)
			}
		case *bool:
			if *v {
				out[o.name] = dbus.MakeVariant(true)
			}
		case *time.Duration:
			if *v > 0 {
				out[o.name] = dbus.MakeVariant(uint64(v.Microseconds()))
			}
		}
	}
	return out
}

// decode reads the options from the bus. An unknown option is an error, since the caller
// may rely on it.
func (r *Request) decode(values map[string]dbus.Variant) error {
	known := r.options()
	for name, v := range values {
		i := slices.IndexFunc(known, func(o option) bool { return o.name == name })
		if i < 0 || !known[i].take(v.Value()) {
			return busError(errorArguments, fmt.Sprintf("Acquire has no option %q of type %q", sanitize.Text(name), v.Signature()))
		}
	}
	switch {
	case r.Exclusive && r.Share > 0:
		return busError(errorArguments, "a lease is exclusive or shared, not both")
	case r.Partitions > 0 && r.GPUs > 0:
		return busError(errorArguments, "a request has a number of partitions or of whole GPUs, not both")
	case r.Named() && (r.Partitions > 0 || r.GPUs > 0) || len(r.NamedGPUs) > 0 && len(r.NamedPartitions) > 0:
		return busError(errorArguments, "a request has names of GPUs, names of partitions, or a number")
	case r.Named() && r.Make != "":
		return busError(errorArguments, "a request with make has no names")
	case len(r.NamedGPUs)+len(r.NamedPartitions) > maxCount:
		return busError(errorArguments, "too many names")
	case r.Named():
	case r.Partitions == 0 && r.GPUs == 0:
		r.Partitions = 1
	}
	return nil
}

// Named reports whether the request names its GPUs or partitions.
func (r *Request) Named() bool { return len(r.NamedGPUs)+len(r.NamedPartitions) > 0 }

// Larger values are reduced to these, so that they fit into an int and a Duration.
const (
	maxCount       = 1 << 16
	leaseTimeLimit = 10 * 365 * 24 * time.Hour
)

// take stores the value. It returns false if the value is not of the option's type.
func (o option) take(value any) bool {
	switch v := value.(type) {
	case uint32:
		to, ok := o.to.(*int)
		if ok {
			*to = int(min(v, maxCount))
		}
		return ok
	case []string:
		to, ok := o.to.(*[]string)
		if ok {
			*to = make([]string, len(v))
			for i, name := range v {
				(*to)[i] = sanitize.Text(name)
			}
		}
		return ok
	case string:
		to, ok := o.to.(*string)
		if ok {
			*to = sanitize.Text(v)
		}
		return ok
	case bool:
		to, ok := o.to.(*bool)
		if ok {
			*to = v
		}
		return ok
	case uint64:
		to, ok := o.to.(*time.Duration)
		if ok {
			*to = time.Duration(min(v, uint64(leaseTimeLimit.Microseconds()))) * time.Microsecond
		}
		return ok
	}
	return false
}
