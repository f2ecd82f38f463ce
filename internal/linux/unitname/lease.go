package unitname

import (
	"fmt"
	"strconv"
	"strings"
)

// LeaseKind is what a lease promises.
type LeaseKind string

// The kinds of lease.
const (
	ConfinedLease  LeaseKind = "lease"     // nothing else opens in it; who is outside may open what it has
	ExclusiveLease LeaseKind = "exclusive" // what it has opens nowhere else either: needs the guard
	SharedLease    LeaseKind = "share"     // several of them have the same partition
)

// Lease is what a lease's unit is called, so that PID 1 is all that has to remember
// whose it is and of what kind: "dcm-lease-1000-4f1c09aa.scope".
type Lease struct {
	Kind LeaseKind
	UID  uint32
	ID   string // eight hexadecimal digits
	Of   int    // of a shared one: how many may have the same partition; else 0
}

// String is "dcm-share3-1000-4f1c09aa.scope" for one of three.
func (n Lease) String() string {
	of := ""
	if n.Of > 0 {
		of = strconv.Itoa(n.Of)
	}
	return fmt.Sprintf("dcm-%s%s-%d-%s.scope", n.Kind, of, n.UID, n.ID)
}

// MaxShares is how many can have one partition together.
const MaxShares = 64

// ParseLease returns what a unit's name says; ok is false for one that is no lease's.
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
	n.Of, _ = strconv.Atoi(of) // 0 where there is none
	switch n.Kind {
	case ConfinedLease, ExclusiveLease:
		return n, err == nil && of == ""
	case SharedLease:
		return n, err == nil && n.Of >= 2 && n.Of <= MaxShares
	}
	return Lease{}, false
}

const digits = "0123456789"
