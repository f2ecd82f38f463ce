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
}

func (n Name) String() string { return fmt.Sprintf("dcm-%s-%d-%s.scope", n.Kind, n.UID, n.ID) }

var nameForm = regexp.MustCompile(`^dcm-(lease|exclusive|share)-([0-9]{1,10})-([0-9a-f]{8})\.scope$`)

// ParseName returns what a unit's name says; ok is false for one that is no lease's.
func ParseName(unit string) (n Name, ok bool) {
	m := nameForm.FindStringSubmatch(unit)
	if m == nil {
		return Name{}, false
	}
	uid, err := strconv.ParseUint(m[2], 10, 32)
	return Name{Kind(m[1]), uint32(uid), m[3]}, err == nil
}
