package lease

import (
	"fmt"
	"strconv"
	"strings"
)

// Kind is what a lease promises.
type Kind string

// The kinds of lease.
const (
	Confined  Kind = "lease"     // nothing else opens in it; who is outside may open what it has
	Exclusive Kind = "exclusive" // what it has opens nowhere else either: needs the guard
	Shared    Kind = "share"     // several of them have the same partition
)

// Name is what a lease's unit is called, so that PID 1 is all that has to remember
// whose it is and of what kind: "dcm-lease-1000-4f1c09aa.scope".
type Name struct {
	Kind Kind
	UID  uint32
	ID   string // eight hexadecimal digits
	Of   int    // of a shared one: how many may have the same partition; else 0
}

// String is "dcm-share3-1000-4f1c09aa.scope" for one of three.
func (n Name) String() string {
	of := ""
	if n.Of > 0 {
		of = strconv.Itoa(n.Of)
	}
	return fmt.Sprintf("dcm-%s%s-%d-%s.scope", n.Kind, of, n.UID, n.ID)
}

// MostShares is how many can have one partition together.
const MostShares = 64

// ParseName returns what a unit's name says; ok is false for one that is no lease's.
func ParseName(unit string) (n Name, ok bool) {
	rest, ours := strings.CutPrefix(unit, "dcm-")
	rest, scope := strings.CutSuffix(rest, ".scope")
	parts := strings.Split(rest, "-")
	if !ours || !scope || len(parts) != 3 {
		return Name{}, false
	}
	kind := strings.TrimRight(parts[0], digits)
	of, uid, id := parts[0][len(kind):], parts[1], parts[2]
	if strings.HasPrefix(of, "0") || len(of) > 2 || len(uid) > 10 || strings.Trim(uid, digits) != "" ||
		len(id) != 8 || strings.Trim(id, digits+"abcdef") != "" {
		return Name{}, false
	}
	user, err := strconv.ParseUint(uid, 10, 32)
	n = Name{Kind: Kind(kind), UID: uint32(user), ID: id}
	n.Of, _ = strconv.Atoi(of) // 0 where there is none
	switch n.Kind {
	case Confined, Exclusive:
		return n, err == nil && of == ""
	case Shared:
		return n, err == nil && n.Of >= 2 && n.Of <= MostShares
	}
	return Name{}, false
}

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

const digits = "0123456789"
