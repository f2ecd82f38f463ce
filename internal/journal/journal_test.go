package journal

import (
	"log/slog"
	"testing"

	"github.com/coreos/go-systemd/v22/journal"
	"github.com/google/go-cmp/cmp"
)

type entry struct {
	Text   string
	Level  journal.Priority
	Fields map[string]string
}

func TestAttributesBecomeFields(t *testing.T) {
	var got []entry
	h := &Handler{name: "dcm", send: func(text string, p journal.Priority, fields map[string]string) error {
		got = append(got, entry{text, p, fields})
		return nil
	}}
	log := slog.New(h).With("run", "abc")
	log.Info("switched 0000:05:00.0 from SPX to CPX", "gpu", "0000:05:00.0", "from", "SPX", "to", "CPX")
	log.Error("step failed", "error", "device or resource busy", MessageID, "0123", "empty", "")
	log.WithGroup("unit").Warn("odd", "näme-1", "x")
	want := []entry{
		{"switched 0000:05:00.0 from SPX to CPX", journal.PriInfo, map[string]string{
			"SYSLOG_IDENTIFIER": "dcm", "DCM_RUN": "abc", "DCM_GPU": "0000:05:00.0", "DCM_FROM": "SPX", "DCM_TO": "CPX"}},
		{`step failed error="device or resource busy"`, journal.PriErr, map[string]string{
			"SYSLOG_IDENTIFIER": "dcm", "DCM_RUN": "abc", "DCM_ERROR": "device or resource busy", "MESSAGE_ID": "0123"}},
		{"odd unit_näme-1=x", journal.PriWarning, map[string]string{
			"SYSLOG_IDENTIFIER": "dcm", "DCM_RUN": "abc", "DCM_UNIT_N_ME_1": "x"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}
