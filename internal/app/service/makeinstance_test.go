package service

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"dcm/internal/engine/config"
	"dcm/internal/engine/event"
	"dcm/internal/gpu/made"
)

// attributes collects the attributes of the last log entry.
type attributes struct {
	slog.Handler
	last map[string]any
}

func (a *attributes) Enabled(context.Context, slog.Level) bool { return true }

func (a *attributes) Handle(_ context.Context, r slog.Record) error {
	a.last = make(map[string]any)
	r.Attrs(func(one slog.Attr) bool {
		a.last[one.Key] = one.Value.Any()
		return true
	})
	return nil
}

// The entries of a service are those that dcm usage reads: its partition when it was created, and none when it
// was destroyed. The unit of a lease has its partitions itself.
func TestLogInstance(t *testing.T) {
	cfg := &config.Config{Reservations: []config.Reservation{{Name: "each", Unit: "each@.service", Make: "1g.10gb"}}}
	service := made.Name{Lease: "each@1.service", GPU: "0000:41:00.0", Profile: "1g.10gb", Start: 3}
	lease := made.Name{Lease: "dcm-lease-1000-4f1c09aa.scope", GPU: "0000:41:00.0", Profile: "1g.10gb", Start: 4}
	id := event.Reserved.Attr()
	for _, tt := range []struct {
		n           made.Name
		cfg         *config.Config
		exists      bool
		reservation any // nil: the entry is not for dcm usage
		partitions  []string
	}{
		{service, cfg, true, "each", []string{"0000:41:00.0-3"}},
		{service, cfg, false, "each", nil},
		{service, &config.Config{}, false, service.Lease, nil},
		{service, nil, false, service.Lease, nil},
		{lease, cfg, true, nil, nil},
		{lease, cfg, false, nil, nil},
	} {
		var got attributes
		logInstance(slog.New(&got), tt.cfg, tt.n, tt.exists)
		partitions, _ := got.last["partitions"].([]string)
		if got.last["unit"] != tt.n.Lease || got.last["reservation"] != tt.reservation || !slices.Equal(partitions, tt.partitions) || (got.last[id.Key] == id.Value.Any()) != (tt.reservation != nil) {
			t.Errorf("%s, exists %t: got %s", tt.n.Lease, tt.exists, fmt.Sprint(got.last))
		}
	}
}
