package host

import (
	"os/user"
	"strconv"
)

// UID returns the number of a user, given its name or number. It does not find the name of a user of a directory.
func UID(name string) (uid uint32, ok bool) {
	if u, err := user.Lookup(name); err == nil {
		name = u.Uid
	}
	n, err := strconv.ParseUint(name, 10, 32)
	return uint32(n), err == nil
}
