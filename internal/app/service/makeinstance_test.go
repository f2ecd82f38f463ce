package service

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"dcm/internal/engine/config"
	"dcm/internal/gpu/made"
	"dcm/internal/leases/accounting"
	"dcm/internal/linux/journal"
)

// ledgerHandler adds log entries to a ledger, as the journal has them.
type ledgerHandler struct {
	slog.Handler
	add func(fields map[string][]string)
}

func (h ledgerHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h ledgerHandler) Handle(_ context.Context, r slog.Record) error {
	fields := make(map[string][]string)
	names := map[string]string{journal.MessageID: "MESSAGE_ID", "unit": "DCM_UNIT", "partitions": "DCM_PARTITIONS"}
	r.Attrs(func(a slog.Attr) bool {
		if list, ok := a.Value.Any().([]string); ok {
			fields[names[a.Key]] = list
		} else {
			fields[names[a.Key]] = []string{a.Value.String()}
		}
		return true
	})
	h.add(fields)
	return nil
}

// The partition-hours of a service begin with its instance, and end with it even if the service then starts
// without a reservation.
func TestLogInstance_Usage(t *testing.T) {
	const started = "39f53479d3a045ac8e11786248231fbf" // SD_MESSAGE_UNIT_STARTED
	const stopped = "9d1aaa27d60140bd96365438aad20286" // SD_MESSAGE_UNIT_STOPPED
	ledger, minute := accounting.NewLedger(), 0
	add := func(fields map[string][]string) {
		minute++
		ledger.Add(journal.Entry{Time: time.Unix(60*int64(minute), 0), Boot: "b", Fields: fields})
	}
	pid1 := func(id, unit string) {
		add(map[string][]string{"_PID": {"1"}, "MESSAGE_ID": {id}, "UNIT": {unit}})
	}
	log := slog.New(ledgerHandler{add: add})
	cfg := &config.Config{Reservations: []config.Reservation{{Name: "each", Unit: "each@.service", Make: "1g.10gb"}}}
	service := made.Name{Lease: "each@1.service", GPU: "0000:41:00.0", Profile: "1g.10gb", Start: 3}
	lease := made.Name{Lease: "dcm-lease-1000-4f1c09aa.scope", GPU: "0000:41:00.0", Profile: "1g.10gb", Start: 4}
	logInstance(log, cfg, service, true) // minute 1
	logInstance(log, cfg, lease, true)
	pid1(started, service.Lease) // minute 3
	pid1(stopped, service.Lease)
	pid1(started, service.Lease) // minute 5: restarted with its instance
	pid1(stopped, service.Lease)
	logInstance(log, &config.Config{}, service, false)
	logInstance(log, cfg, lease, false)
	pid1(started, service.Lease)
	pid1(started, "each@2.service")
	got := 0.0
	for _, r := range ledger.Runs(accounting.Now{Time: time.Unix(6000, 0), Boot: "b", Active: func(string) bool { return true }}) {
		if r.Unit != service.Lease || len(r.Partitions) != 1 || r.Partitions[0] != "0000:41:00.0-3" {
			t.Errorf("run: got %+v", r)
		}
		got += r.Seconds(time.Time{}, time.Unix(6000, 0))
	}
	if got != 120 {
		t.Errorf("partition-seconds: got %.0f, want 120", got)
	}
}
