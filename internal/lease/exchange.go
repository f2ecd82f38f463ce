package lease

import (
	"fmt"
	"slices"
)

// exchange is what tells of a lease that its only process asks out of for another one.
type exchange interface {
	// Alone returns the lease that a process is in and nobody else is, "" if there is none.
	Alone(pid int) string
	// Empty tells whether nobody is in a lease.
	Empty(unit string) bool
}

// without leaves out the caller's own lease where nobody else is in it: that ends when the
// caller is moved. Else who stands in line anew, since the daemon has died behind a move,
// would wait for himself, and a program would need room for two where it asks for one.
func (k *Keeper) without(f Facts, c Caller) (Facts, string) {
	before := k.Host.Alone(c.PID)
	if n, ok := ParseName(before); !ok || n.UID != c.UID {
		return f, ""
	}
	f.Tenants = slices.DeleteFunc(slices.Clone(f.Tenants), func(t Tenant) bool { return t.Unit == before })
	return f, before
}

// over refuses the exchange where the caller has left somebody behind: two would have the
// same.
func (k *Keeper) over(before string) error {
	if before == "" || k.Host.Empty(before) {
		return nil
	}
	return fmt.Errorf("%s, which was to be exchanged, has other processes now", before)
}
