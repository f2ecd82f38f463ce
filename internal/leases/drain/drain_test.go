package drain

import (
	"errors"
	"strings"
	"testing"

	"dcm/internal/engine/host"
	"dcm/internal/engine/host/hosttest"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/filelock"
)

const gpu partition.Address = "0000:65:00.0"

func TestStart_OneDrainOnly(t *testing.T) {
	h := &host.Host{Root: t.TempDir()}
	hosttest.Plant(t, h.Root, "sys/fs/cgroup/dcm.slice/dcm-lease-0-4f1c09aa.scope/cgroup.procs", "71\n")
	hosttest.Plant(t, h.Root, "run/dcm/x", "")
	if w := Now(h); w.Holder != "" || w.Concerns(gpu) || Notes(h) != nil {
		t.Errorf("holder without a drain: got %+v, want none", w)
	}
	d, err := Start(h, []string{"dcm", "apply", "--when-\x1bidle"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Start(h, nil, nil); !errors.Is(err, filelock.ErrLocked) {
		t.Errorf("second drain: got %v, want ErrLocked", err)
	}
	got := strings.Join(Notes(h), "; ")
	if !strings.HasPrefix(got, `dcm apply --when-\x1bidle, by `) || !strings.Contains(got, "waits for the end of all leases (dcm-lease-0-4f1c09aa.scope), and no new ones are granted") {
		t.Errorf("notes: got %s", got)
	}
	if w := Now(h); !w.Everything() || !w.Concerns(gpu) {
		t.Errorf("drain of all GPUs: got %+v", w)
	}
	if err := d.Limit([]partition.Address{gpu}); err != nil {
		t.Fatal(err)
	}
	if w := Now(h); w.Everything() || !w.Concerns(gpu) || w.Concerns("0000:85:00.0") {
		t.Errorf("drain of one GPU: got %+v", w)
	}
	if got := strings.Join(Notes(h), "; "); !strings.Contains(got, "waits for the end of the leases of 0000:65:00.0, and no new ones are granted on these GPUs") {
		t.Errorf("notes of one GPU: got %s", got)
	}
	d.End()
	if w := Now(h); w.Holder != "" || w.Concerns(gpu) {
		t.Errorf("holder after the drain: got %+v, want none", w)
	}
}
