// Package made creates and destroys the MIG instances that leases have made on dynamic GPUs.
//
// dcm-make@NAME.service has an instance for as long as its lease needs it: its start creates the
// instance, and its stop destroys it. NAME has the lease and the placement. A [Claim] of that name
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

// Name identifies an instance of a lease.
type Name struct {
	Lease   string // the unit of the lease
	GPU     partition.Address
	Profile string
	Start   int // the first memory slot
}

// String returns the name of the instance of the template: "lease-1000-4f1c09aa_0000:41:00.0_3g.40gb_4".
func (n Name) String() string {
	lease := strings.TrimSuffix(strings.TrimPrefix(n.Lease, leasePrefix), leaseSuffix)
	return fmt.Sprintf("%s_%s_%s_%d", lease, n.GPU, strings.ReplaceAll(n.Profile, "+", ":"), n.Start)
}

const (
	leasePrefix = "dcm-"
	leaseSuffix = ".scope"
)

// Unit returns the unit that creates and destroys the instance.
func (n Name) Unit() string { return strings.Replace(unitname.Make, "@", "@"+n.String(), 1) }

// Instance returns the instance.
func (n Name) Instance() partition.Instance {
	return partition.Instance{Profile: n.Profile, Start: n.Start}
}

// Parse parses the text of [Name.String].
func Parse(text string) (Name, error) {
	fields := strings.Split(text, "_")
	if len(fields) != 4 {
		return Name{}, fmt.Errorf("%q is not the name of an instance of a lease", text)
	}
	n := Name{Lease: leasePrefix + fields[0] + leaseSuffix, Profile: strings.ReplaceAll(fields[2], ":", "+")}
	_, lease := unitname.ParseLease(n.Lease)
	address, err := partition.ParseAddress(fields[1])
	_, bad := partition.ParseMade(n.Profile)
	start, other := strconv.Atoi(fields[3])
	n.GPU, n.Start = address, start
	if !lease || err != nil || bad != nil || other != nil || n.String() != text {
		return Name{}, fmt.Errorf("%q is not the name of an instance of a lease", text)
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
