package lease

import (
	"slices"

	"dcm/internal/linux/unitname"
)

// location identifies the lease that a caller runs in.
type location struct {
	unit string // "" for none
	own  bool   // the lease is the caller's, and the caller is its only process
}

func locate(p Processes, c Caller) location {
	unit, alone := p.Within(c.PID)
	n, ok := unitname.ParseLease(unit)
	if !ok {
		return location{}
	}
	return location{unit, alone && n.UID == c.UID}
}

// replaced returns the lease that ends when the caller moves to another one, "" for none.
func (l location) replaced() string {
	if !l.own {
		return ""
	}
	return l.unit
}

// around returns the lease that the caller shares with other processes, "" for none. The caller stays
// in it while it waits.
func (l location) around() string {
	if l.own {
		return ""
	}
	return l.unit
}

// excludeOwn removes the lease that is to be replaced from the snapshot, so that its partitions
// count as free.
func (l location) excludeOwn(snapshot Snapshot) Snapshot {
	if !l.own {
		return snapshot
	}
	snapshot.Units = slices.DeleteFunc(slices.Clone(snapshot.Units), func(u UnitDevices) bool { return u.Unit == l.unit })
	return snapshot
}
