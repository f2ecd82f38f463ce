package lease

import (
	"strings"
	"testing"

	"dcm/internal/engine/runstate"
	"dcm/internal/leases/placement"
	"dcm/internal/linux/unitname"
)

func TestNames(t *testing.T) {
	for kind, of := range map[unitname.LeaseKind]int{unitname.ConfinedLease: 0, unitname.ExclusiveLease: 0, unitname.SharedLease: unitname.MaxShares} {
		n := unitname.Lease{Kind: kind, UID: 4294967294, ID: "00c0ffee", Of: of}
		if got, ok := unitname.ParseLease(n.String()); !ok || got != n {
			t.Errorf("%s is parsed as %+v, %v", n, got, ok)
		}
	}
	for _, unit := range []string{"dcm-lease-1000-00c0ffee.service", "dcm-lease--00c0ffee.scope", "dcm-lease-99999999999-00c0ffee.scope", "session-1.scope", "dcm-lease-4294967296-00c0ffee.scope",
		"dcm-share-1-00c0ffee.scope", "dcm-share1-1-00c0ffee.scope", "dcm-share65-1-00c0ffee.scope", "dcm-lease3-1-00c0ffee.scope"} {
		if n, ok := unitname.ParseLease(unit); ok {
			t.Errorf("%s is parsed as %+v", unit, n)
		}
	}
}

// Every user can read the description, and a backslash at its end would continue the line in the
// unit file.
func TestDescribe(t *testing.T) {
	choice := placement.Choice{Partitions: []runstate.Part{{Name: "0000:05:00.0-0"}, {Name: "0000:05:00.0-1"}}}
	for what, want := range map[string]string{
		"mysql -psecret":         "mysql",
		"/usr/bin/python3 a.py":  "python3",
		`sh -c 'sleep 1000' '\'`: "sh",
		`tool\\`:                 "tool",
		"":                       "unknown",
		" ":                      "unknown",
	} {
		if got, want := describe(Request{What: what}, choice), "Lease of 0000:05:00.0-0 0000:05:00.0-1: "+want; got != want {
			t.Errorf("description of %q: got %q, want %q", what, got, want)
		}
		if names, program := ParseDescription(describe(Request{What: what}, choice)); strings.Join(names, " ") != "0000:05:00.0-0 0000:05:00.0-1" || program != want {
			t.Errorf("description of %q parsed: got %q and %q, want both partitions and %q", what, names, program, want)
		}
	}
}
