package unitname

import (
	"fmt"
	"strconv"
	"strings"
)

// LeaseKind is the kind of a lease.
type LeaseKind string

// The kinds of lease.
const (
	ConfinedLease  LeaseKind = "lease"     // processes in the lease can open only its partitions
	ExclusiveLease LeaseKind = "exclusive" // in addition, other processes cannot open them; needs the guard
	SharedLease    LeaseKind = "share"     // confined, and several leases may have the same partition
)

// Lease is the name of a lease's unit: "dcm-lease-1000-4f1c09aa.scope". It contains the owner and
// the kind, so that PID 1 is the only record of both.
type Lease struct {
	Kind LeaseKind
	UID  uint32
	ID   string // eight hexadecimal digits
	Of   int    // of a shared lease: how many leases may share a partition; otherwise 0
}

// String returns the unit's name, as "dcm-share3-1000-4f1c09aa.scope".
func (n Lease) String() string {
	of := ""
	if n.Of > 0 {
		of = strconv.Itoa(n.Of)
	}
	return fmt.Sprintf("dcm-%s%s-%d-%s.scope", n.Kind, of, n.UID, n.ID)
}

// MaxShares limits how many leases may share a partition.
const MaxShares = 64

// ParseLease parses the name of a unit. ok is false if it is not that of a lease.
func ParseLease(unit string) (n Lease, ok bool) {
	rest, ours := strings.CutPrefix(unit, "dcm-")
	rest, scope := strings.CutSuffix(rest, ".scope")
	parts := strings.Split(rest, "-")
	if !ours || !scope || len(parts) != 3 {
		return Lease{}, false
	}
	kind := strings.TrimRight(parts[0], digits)
	of, uid, id := parts[0][len(kind):], parts[1], parts[2]
	if strings.HasPrefix(of, "0") || len(of) > 2 || len(uid) > 10 || strings.Trim(uid, digits) != "" ||
		len(id) != 8 || strings.Trim(id, digits+"abcdef") != "" {
		return Lease{}, false
	}
	user, err := strconv.ParseUint(uid, 10, 32)
	n = Lease{Kind: LeaseKind(kind), UID: uint32(user), ID: id}
	n.Of, _ = strconv.Atoi(of) // 0 without a number
	switch n.Kind {
	case ConfinedLease, ExclusiveLease:
		return n, err == nil && of == ""
	case SharedLease:
		return n, err == nil && n.Of >= 2 && n.Of <= MaxShares
	}
	return Lease{}, false
}

const digits = "0123456789"
