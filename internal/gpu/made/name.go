// Package made creates and destroys the MIG instances that leases and reserved services have on dynamic
// GPUs.
//
// dcm-make@NAME.service has an instance for as long as its holder needs it: its start creates the
// instance, and its stop destroys it. For a lease, NAME has the lease and the placement. For a service,
// it has the profile and the service, and the start chooses the placement. A [Claim] with all of these
// exists from before the creation until after the destruction, so that every reader of the GPUs
// distinguishes these instances from those of the profile. After a kill at any step, a further stop of
// the unit destroys what is left.
package made

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"dcm/internal/gpu/partition"
	"dcm/internal/linux/unitname"
)

// Name identifies an instance of a lease or of a reserved service.
type Name struct {
	Lease   string // the unit that has it: the scope of a lease, or a service
	GPU     partition.Address
	Profile string
	Start   int // the first memory slot
}

// String returns the name of the claim: "lease-1000-4f1c09aa_0000:41:00.0_3g.40gb_4", or
// "vllm@a.service_0000:41:00.0_3g.40gb_4".
func (n Name) String() string {
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

// Unit returns the unit that creates and destroys the instance.
func (n Name) Unit() string {
	if n.OfService() {
		return Service{n.Lease, n.Profile}.MakeUnit()
	}
	return makeUnit(n.String())
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

// ParseService parses the text of [Service.String].
func ParseService(text string) (Service, error) {
	profile, unit, _ := strings.Cut(text, "_")
	s := Service{unit, strings.ReplaceAll(profile, ":", "+")}
	if _, err := partition.ParseMade(s.Profile); err != nil || !strings.HasSuffix(unit, serviceSuffix) || !unitname.Valid(unit) || s.String() != text {
		return Service{}, fmt.Errorf("%q is not the name of an instance of a service", text)
	}
	return s, nil
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

func linkName(i int) string { return "node" + strconv.Itoa(i) }
