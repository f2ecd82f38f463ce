// Package made changes dynamic GPUs for their holders: it creates and destroys the MIG instances of leases
// and reserved services, and switches compute modes for leases and back.
//
// dcm-make@NAME.service has an instance for as long as its holder needs it: its start creates the
// instance, and its stop destroys it. For a lease, NAME has the lease and the placement. For a service,
// it has the profile and the service, and the start chooses the placement. A compute mode has one unit
// for all leases of the GPU; NAME has the GPU and the modes. [Claims] has an entry with all of these
// from before the change until after its end, so that every reader of the GPUs distinguishes what was
// made from the profile. After a kill at any step, a further stop of the unit undoes what is left.
package made

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"dcm/internal/gpu/partition"
	"dcm/internal/linux/unitname"
)

// Name identifies an instance of a lease or of a reserved service, or a compute mode of a GPU that leases
// share.
type Name struct {
	Lease   string // the unit that has it: the scope of a lease, or a service; "" for a mode
	GPU     partition.Address
	Profile string            // the MIG profile or the compute mode
	Start   int               // the first memory slot; 0 for a mode
	Rest    partition.Compute // the mode of the GPU before and afterwards; "" for an instance
}

// modePrefix begins the text of a mode.
const modePrefix = "mode"

// String returns the name of the claim: "lease-1000-4f1c09aa_0000:41:00.0_3g.40gb_4",
// "vllm@a.service_0000:41:00.0_3g.40gb_4" or "mode_0000:05:00.0_CPX_SPX".
func (n Name) String() string {
	if n.IsMode() {
		return fmt.Sprintf("%s_%s_%s_%s", modePrefix, n.GPU, n.Profile, n.Rest)
	}
	holder := n.Lease
	if !n.OfService() {
		holder = strings.TrimSuffix(strings.TrimPrefix(holder, leasePrefix), leaseSuffix)
	}
	return fmt.Sprintf("%s_%s_%s_%d", holder, n.GPU, escapeProfile(n.Profile), n.Start)
}

// OfService reports whether a service has the instance.
func (n Name) OfService() bool { return strings.HasSuffix(n.Lease, serviceSuffix) }

// escapeProfile replaces the only character of a profile that is not valid in the name of a unit.
func escapeProfile(profile string) string { return strings.ReplaceAll(profile, "+", ":") }

const (
	leasePrefix = "dcm-"
	leaseSuffix = ".scope"

	serviceSuffix = ".service"
)

// Unit returns the unit that creates and destroys the instance, or switches the GPU.
func (n Name) Unit() string {
	if n.OfService() {
		return Service{n.Lease, n.Profile}.MakeUnit()
	}
	return makeUnit(n.String())
}

// ModeUnits is the pattern of the units of modes, for fnmatch(3).
var ModeUnits = makeUnit(modePrefix + "_*")

// NameOf returns the name whose unit is makeUnit.
func NameOf(makeUnit string) (Name, error) {
	prefix, suffix, _ := strings.Cut(unitname.Make, "@")
	return Parse(strings.TrimSuffix(strings.TrimPrefix(makeUnit, prefix+"@"), suffix))
}

func makeUnit(instance string) string { return strings.Replace(unitname.Make, "@", "@"+instance, 1) }

// Service is a service that has an instance while it is active.
type Service struct {
	Unit    string // "vllm@a.service"
	Profile string
}

// String returns the name of the instance of the template: "3g.40gb_vllm@a.service". It has the profile,
// so that a service whose profile changes requires another unit.
func (s Service) String() string { return escapeProfile(s.Profile) + "_" + s.Unit }

// MakeUnit returns the unit that creates and destroys the instance of the service.
func (s Service) MakeUnit() string { return makeUnit(s.String()) }

// ServiceOf returns the service whose instance a unit creates and destroys.
func ServiceOf(makeUnit string) (Service, error) {
	prefix, suffix, _ := strings.Cut(unitname.Make, "@")
	return ParseService(strings.TrimSuffix(strings.TrimPrefix(makeUnit, prefix+"@"), suffix))
}

// ParseService parses the text of [Service.String].
func ParseService(text string) (Service, error) {
	profile, unit, _ := strings.Cut(text, "_")
	s := Service{unit, strings.ReplaceAll(profile, ":", "+")}
	if _, err := partition.ParseMade(s.Profile); err != nil || !strings.HasSuffix(unit, serviceSuffix) || !unitname.Valid(unit) || s.String() != text {
		return Service{}, fmt.Errorf("%q is not the name of an instance of a service", text)
	}
	return s, nil
}

// Keeper returns the unit that keeps a mode between leases: it requires [Name.Unit].
func (n Name) Keeper() string { return strings.Replace(unitname.Keep, "@", "@"+n.String(), 1) }

// IsMode reports whether the name is that of a compute mode.
func (n Name) IsMode() bool { return n.Rest != "" }

// Describe says which mode leases have set, for the status.
func (n Name) Describe() string {
	return partition.MadeMode{Compute: partition.Compute(n.Profile), Rest: n.Rest}.Describe(n.GPU)
}

// Instance returns the instance.
func (n Name) Instance() partition.Instance {
	return partition.Instance{Profile: n.Profile, Start: n.Start}
}

// Parse parses the text of [Name.String].
func Parse(text string) (Name, error) {
	bad := fmt.Errorf("%q is not the name of an instance of a lease or service", text)
	fields := strings.Split(text, "_")
	last := len(fields) - 3
	if last < 1 {
		return Name{}, bad
	}
	if last == 1 && fields[0] == modePrefix {
		return parseMode(text, fields)
	}
	n := Name{Lease: strings.Join(fields[:last], "_"), Profile: strings.ReplaceAll(fields[last+1], ":", "+")}
	known := unitname.Valid(n.Lease)
	if !n.OfService() {
		n.Lease = leasePrefix + n.Lease + leaseSuffix
		_, known = unitname.ParseLease(n.Lease)
	}
	address, err := partition.ParseAddress(fields[last])
	_, invalid := partition.ParseMade(n.Profile)
	start, other := strconv.Atoi(fields[last+2])
	n.GPU, n.Start = address, start
	if !known || err != nil || invalid != nil || other != nil || n.String() != text {
		return Name{}, bad
	}
	return n, nil
}

// parseMode is Parse for a mode.
func parseMode(text string, fields []string) (Name, error) {
	address, err := partition.ParseAddress(fields[1])
	to, unknown := partition.ParseCompute(fields[2])
	rest, other := partition.ParseCompute(fields[3])
	n := Name{GPU: address, Profile: string(to), Rest: rest}
	if err != nil || unknown != nil || other != nil || n.String() != text {
		return Name{}, fmt.Errorf("%q is not the name of a compute mode of leases", text)
	}
	return n, nil
}

// Dir is the directory with the claims.
const Dir = "/dev/dcm-made"

// links is the number of device nodes that a user of a MIG device opens: its own node, those of its GPU
// instance and its GPU, and three of the driver.
const links = 6

// Nodes returns the links to the device nodes of the instance, the partition's own node last. The nodes
// are not known before the instance exists. systemd follows the links when it starts the lease.
func (n Name) Nodes() []string {
	out := make([]string, links)
	for i := range out {
		out[i] = path.Join(Dir, n.String(), linkName(i))
	}
	return out
}

// Node returns the link to the device node of one partition of a mode. Like those of [Name.Nodes], it
// exists when the unit is active.
func (n Name) Node(index int) string { return path.Join(Dir, n.String(), linkName(index)) }

func linkName(i int) string { return "node" + strconv.Itoa(i) }
