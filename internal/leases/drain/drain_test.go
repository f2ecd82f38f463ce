package drain

import (
	"dcm/internal/engine/host"
	"dcm/internal/engine/host/hosttest"
	"errors"
	"strings"
	"testing"

	"dcm/internal/linux/filelock"
)

func TestStart_OneDrainOnly(t *testing.T) {
	h := &host.Host{Root: t.TempDir()}
	hosttest.Plant(t, h.Root, "sys/fs/cgroup/dcm.slice/dcm-lease-0-4f1c09aa.scope/cgroup.procs", "71\n")
	hosttest.Plant(t, h.Root, "run/dcm/x", "")
	if who := Holder(h); who != "" || Notes(h) != nil {
		t.Errorf("holder without a drain: got %q, want none", who)
	}
	release, err := Start(h, []string{"dcm", "apply", "--when-\x1bidle"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Start(h, nil); !errors.Is(err, filelock.ErrLocked) {
		t.Errorf("second drain: got %v, want ErrLocked", err)
	}
	got := strings.Join(Notes(h), "; ")
	if !strings.HasPrefix(got, `dcm apply --when-\x1bidle, by `) || !strings.Contains(got, "waits for the end of all leases (dcm-lease-0-4f1c09aa.scope), and no new ones are given") {
		t.Errorf("notes: got %s", got)
	}
	release()
	if who := Holder(h); who != "" {
		t.Errorf("holder after the drain: got %q, want none", who)
	}
}
