package service

import (
	"strings"
	"sync"
	"testing"

	"dcm/internal/bus"
	"dcm/internal/config"
	"dcm/internal/host"
	"dcm/internal/partition"
)

// Whoever is connected to the bus may make these calls, and a configuration may take
// seconds to parse: here it cannot be read at all.
func TestCallsOfUsers_ReadNoConfiguration(t *testing.T) {
	root := t.TempDir()
	effective := &config.Config{Profiles: map[string]partition.Profile{"cpx": {Name: "cpx"}}}
	h := &host.Host{Root: root}
	inForce := func() *config.Config { return effective }
	c := control{host: h, node: h.Node(nil), files: new(sync.Mutex), lessor: &lessor{config: inForce}}
	c.files.Lock() // whoever reads it would not return
	for profile, want := range map[string]string{"cpx": "", config.None: "", "cxp": `"cpx"`} {
		if err := c.Known(profile); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", profile, err, want)
		}
	}
	if _, err := c.Plan(t.Context(), bus.Caller{UID: 1000}, "cxp"); err == nil || !strings.Contains(err.Error(), "no such profile") {
		t.Errorf("a plan: %v", err)
	}
}
