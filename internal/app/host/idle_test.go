package host

import (
	"errors"
	"strings"
	"testing"

	"dcm/internal/linux/filelock"
)

func TestOneWaitsForTheLeasesToEnd(t *testing.T) {
	h := &Host{Root: t.TempDir()}
	h.plant(t, "sys/fs/cgroup/dcm.slice/dcm-lease-0-4f1c09aa.scope/cgroup.procs", "71\n")
	h.plant(t, "run/dcm/x", "")
	if who := h.Draining(); who != "" || h.drained() != nil {
		t.Errorf("waiting is %s", who)
	}
	release, err := h.Drain([]string{"dcm", "apply", "--when-\x1bidle"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Drain(nil); !errors.Is(err, filelock.ErrLocked) {
		t.Errorf("a second one waits too: %v", err)
	}
	got := strings.Join(h.drained(), "; ")
	if !strings.HasPrefix(got, `dcm apply --when-\x1bidle, by `) || !strings.Contains(got, "waits for the end of all leases (dcm-lease-0-4f1c09aa.scope), and no new ones are given") {
		t.Errorf("told is %s", got)
	}
	release()
	if who := h.Draining(); who != "" {
		t.Errorf("waiting is still %s", who)
	}
}
