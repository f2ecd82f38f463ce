package lease

import (
	"fmt"
	"strings"

	"dcm/internal/linux/unitname"
)

// Kind is what a lease promises.
type Kind = unitname.LeaseKind

// The kinds of lease.
const (
	Confined  = unitname.ConfinedLease
	Exclusive = unitname.ExclusiveLease
	Shared    = unitname.SharedLease
)

// Name is the name of a lease's unit.
type Name = unitname.Lease

// MostShares is the number of leases that can share one partition.
const MostShares = unitname.MaxShares

// ParseName returns what the name of a unit says; ok is false if it is not a lease's.
func ParseName(unit string) (n Name, ok bool) { return unitname.ParseLease(unit) }

// waitPrefix begins the names of scopes for processes that wait for a lease and have left
// the one that they had: "dcm-wait-1000-4f1c09aa.scope". Such a scope opens no device.
const waitPrefix = "dcm-wait-"

func waitName(uid uint32) string { return fmt.Sprintf("%s%d-%s.scope", waitPrefix, uid, id()) }

// Made reports whether a unit is a scope that a keeper has made, for a lease or for a
// process that waits for one.
func Made(unit string) bool {
	_, ok := ParseName(unit)
	return ok || strings.HasPrefix(unit, waitPrefix) && strings.HasSuffix(unit, ".scope")
}
