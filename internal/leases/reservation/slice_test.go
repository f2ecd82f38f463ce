package reservation

import (
	"strings"
	"testing"

	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/engine/host/hosttest"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/linux/systemd"
)

func TestMisplaced(t *testing.T) {
	h := &host.Host{Root: t.TempDir()}
	hosttest.Plant(t, h.Root, "etc/systemd/system/a.service", "[Service]\nSlice=ml.slice\n")
	hosttest.Plant(t, h.Root, "etc/systemd/system/b.service", "[Service]\nSlice=dcm-ml.slice\n")
	hosttest.Plant(t, h.Root, "run/systemd/generator/c.service", "[Service]\nSlice=user.slice\n")
	list := []config.Reservation{
		{Name: "a", Unit: "a.service", Partitions: 1, Source: "dcm.toml:3"}, {Name: "b", Unit: "b.service", Partitions: 1},
		{Name: "c", Unit: "c.service", Partitions: 1, Source: "dcm.toml:9"}, {Name: "slurm", Partitions: 1},
	}
	err := Misplaced(h, list)
	const want = "dcm.toml:3: a.service has Slice=ml.slice (/etc/systemd/system/a.service:2), but units with partitions must run in dcm.slice\n" +
		"dcm.toml:9: c.service has Slice=user.slice (/run/systemd/generator/c.service:2), but units with partitions must run in dcm.slice"
	if err == nil || err.Error() != want || !strings.Contains(gpu.Hint(err), "Slice=dcm-NAME.slice") {
		t.Errorf("error: got %v (%s), want %s", err, gpu.Hint(err), want)
	}
	if err := Fits(h, list)(nil); err == nil || err.Error() != want {
		t.Errorf("Fits: got %v, want %s", err, want)
	}
	if _, err := ReserveDue(h, list, true); err != nil {
		t.Errorf("ReserveDue before the first choice: %v", err)
	}
	hosttest.Plant(t, h.Root, "run/dcm/partitions.json", `{"version": 1}`)
	if due, err := ReserveDue(h, list, true); !due || err == nil {
		t.Errorf("due: got %t, %v", due, err)
	}
}

// Observers stay in the slices of their units. A note names those that cannot open exclusive partitions
// there.
func TestElsewhere(t *testing.T) {
	h := &host.Host{Root: t.TempDir()}
	hosttest.Plant(t, h.Root, "etc/systemd/system/a.service", "[Service]\nSlice=ml.slice\n")
	hosttest.Plant(t, h.Root, "etc/systemd/system/b.service.d/x.conf", "[Service]\nSlice=dcm-ml.slice\n")
	hosttest.Plant(t, h.Root, "usr/lib/systemd/system/c.service", "[Service]\nExecStart=c\n")
	hosttest.Plant(t, h.Root, "run/systemd/generator/d.service", "[Service]\nSlice=user.slice\n")
	cfg := &config.Config{Observers: []string{"a.service", "b.service", "c.service", "d.service"}}
	if got := Order(h, cfg).Observers; strings.Join(got, " ") != "c.service d.service" {
		t.Errorf("put into dcm.slice are %s", got) // the Slice= of d is in a file of a generator, which is not read
	}
	if got := cfg.Observers; len(got) != 4 {
		t.Errorf("the observers of the configuration were changed to %s", got)
	}
	got := Elsewhere(h, cfg.Observers)
	if len(got) != 2 || !strings.HasPrefix(got[0], "a.service: the observer cannot open exclusive partitions in its slice (found Slice=ml.slice (/etc/systemd/system/a.service:2), want ") ||
		!strings.Contains(got[0], "Slice=dcm-NAME.slice") || !strings.HasPrefix(got[1], "d.service: ") {
		t.Errorf("notes: got %q", got)
	}
}

// A unit that runs when it gets a reservation is restarted.
func TestAddReservations_MarksNewOnes(t *testing.T) {
	h := &host.Host{Root: t.TempDir()}
	list := []config.Reservation{{Name: "a", Unit: "a.service", Partitions: 1, Place: "pack"}, {Name: "b", Unit: "b.service", Partitions: 1}}
	if o := AddReservations(h, systemd.Order{}, list); o.Reserved[0].Changed || o.Reserved[1].Changed {
		t.Errorf("at boot: got %+v", o.Reserved)
	}
	due := func(selected bool, list ...config.Reservation) bool {
		t.Helper()
		due, err := ReserveDue(h, list, selected)
		if err != nil {
			t.Error(err)
		}
		return due
	}
	if due(true, list...) {
		t.Error("partitions are due at boot before dcm-apply.service has run")
	}
	hosttest.Plant(t, h.Root, "run/dcm/last-good.toml", "") // of a daemon, which runs after dcm-apply.service
	if o := AddReservations(h, systemd.Order{}, list); !o.Reserved[0].Changed || !o.Reserved[1].Changed {
		t.Errorf("list missing: got %+v", o.Reserved)
	}
	if !due(true) || !due(false, list...) || due(false) {
		t.Errorf("list missing: due is %t with a profile, %t with reservations, %t without both; want true, true, false", due(true), due(false, list...), due(false))
	}
	hosttest.Plant(t, h.Root, "sys/fs/cgroup/dcm.slice/dcm-lease-0-00000001.scope/cgroup.procs", "")
	if !due(false) {
		t.Error("list missing, with a lease: due is false, want true")
	}
	// A file that cannot be read counts as a missing one.
	for _, text := range []string{`{"version": 1, "partitions": [`, `{"version": 99}`, ""} {
		hosttest.Plant(t, h.Root, "run/dcm/partitions.json", text)
		if !due(true) {
			t.Errorf("file %q: no partitions are due", text)
		}
		if invalid := runstate.Invalid(h.Runtime(), h.KnownGPUs()); len(invalid) != 1 {
			t.Errorf("file %q: invalid are %v", text, invalid)
		}
	}
	last := runstate.Partitions{Reservations: []runstate.Reservation{{Name: "a", Unit: "a.service", Asks: list[0].Asks()}}}
	hosttest.Plant(t, h.Root, "run/dcm/partitions.json", "")
	if err := runstate.PartitionsIn(h.Runtime()).Write(last); err != nil {
		t.Fatal(err)
	}
	if o := AddReservations(h, systemd.Order{}, list); o.Reserved[0].Changed || !o.Reserved[1].Changed {
		t.Errorf("new reservation for b: got %+v", o.Reserved)
	}
}
