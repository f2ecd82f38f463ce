package lease

import (
	"fmt"
	"regexp"
	"strconv"
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

var nameForm = regexp.MustCompile(`^dcm-(lease|exclusive|share)([1-9][0-9]?)?-([0-9]{1,10})-([0-9a-f]{8})\.scope$`)

// ParseName returns what a unit's name says; ok is false for one that is no lease's.
func ParseName(unit string) (n Name, ok bool) {
	m := nameForm.FindStringSubmatch(unit)
	if m == nil {
		return Name{}, false
	}
	uid, err := strconv.ParseUint(m[3], 10, 32)
	of, _ := strconv.Atoi(m[2]) // 0 where there is none
	n = Name{Kind(m[1]), uint32(uid), m[4], of}
	shared := of >= 2 && of <= MostShares
	return n, err == nil && (n.Kind == Shared) == shared && (shared || m[2] == "")
}
