package gather

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/frontends/status"
	"dcm/internal/leases/reservation"
	"dcm/internal/linux/systemd"
)

func TestUnconfined_Hint(t *testing.T) {
	running := systemd.Confined{Unit: "a.service", Active: "active"}
	const files = "systemctl cat a.service shows the files that set it: remove those that override 50-dcm.conf; then systemctl daemon-reload and systemctl restart a.service"
	for _, tt := range []struct {
		name string
		is   reservation.Confined
		want *status.Unconfined
	}{
		{"confined", reservation.Confined{Confined: running}, nil},
		{"its files override the drop-in", reservation.Confined{Confined: running, Loaded: []string{"DevicePolicy=auto, want closed"}},
			&status.Unconfined{Unit: "a.service", Why: status.List[string]{"DevicePolicy=auto, want closed"}, Hint: files}},
		{"started without the drop-in", reservation.Confined{Confined: running, Running: "its processes run in /system.slice/a.service, want dcm-a.slice"},
			&status.Unconfined{Unit: "a.service", Why: status.List[string]{"its processes run in /system.slice/a.service, want dcm-a.slice"}, Hint: "systemctl restart a.service"}},
		{"a lease", reservation.Confined{Confined: systemd.Confined{Unit: "dcm-lease-0-00000001.scope"}, Lease: true, Loaded: []string{"DevicePolicy=auto, want closed"}},
			&status.Unconfined{Unit: "dcm-lease-0-00000001.scope", Why: status.List[string]{"DevicePolicy=auto, want closed"}, Hint: "dcm lease release dcm-lease-0-00000001.scope"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, wrong := unconfined(tt.is)
			if wrong != (tt.want != nil) {
				t.Fatalf("got %v", got)
			}
			if tt.want != nil {
				if diff := cmp.Diff(*tt.want, got); diff != "" {
					t.Errorf("unconfined (-want +got):\n%s", diff)
				}
			}
		})
	}
}
