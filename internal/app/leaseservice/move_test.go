package leaseservice

import (
	"os"
	"regexp"
	"testing"
	"time"

	"dcm/internal/leases/lease"
)

// The daemon waits for the scope of a lease longer than systemd waits for the maker that the scope requires.
func TestStartTimeout_OutlastsMaker(t *testing.T) {
	text, err := os.ReadFile("../../../systemd/dcm-make@.service")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^TimeoutStartSec=(\d+)min$`).FindSubmatch(text)
	if found == nil {
		t.Fatal("dcm-make@.service has no TimeoutStartSec= in minutes")
	}
	maker, err := time.ParseDuration(string(found[1]) + "m")
	if err != nil {
		t.Fatal(err)
	}
	if got := startTimeout(lease.Scope{Requires: "dcm-make@x.service"}); got < maker+HostTimeout {
		t.Errorf("start of a scope with a maker: got %s, want %s or more", got, maker+HostTimeout)
	}
	if got := startTimeout(lease.Scope{}); got != HostTimeout {
		t.Errorf("start of another scope: got %s, want %s", got, HostTimeout)
	}
}
