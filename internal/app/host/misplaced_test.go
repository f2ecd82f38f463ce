package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dcm/internal/engine/config"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/linux/systemd"
)

func (h *Host) plant(t *testing.T, name, text string) {
	t.Helper()
	file := h.Path(name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestReservationsOfUnitsWithASliceAreRefused(t *testing.T) {
	h := &Host{Root: t.TempDir()}
	h.plant(t, "etc/systemd/system/a.service", "[Service]\nSlice=ml.slice\n")
	h.plant(t, "etc/systemd/system/b.service", "[Service]\nSlice=dcm-ml.slice\n")
	h.plant(t, "run/systemd/generator/c.service", "[Service]\nSlice=user.slice\n")
	list := []config.Reservation{
		{Name: "a", Unit: "a.service", Partitions: 1, Source: "dcm.toml:3"}, {Name: "b", Unit: "b.service", Partitions: 1},
		{Name: "c", Unit: "c.service", Partitions: 1, Source: "dcm.toml:9"}, {Name: "slurm", Partitions: 1},
	}
	err := h.Misplaced(list)
	const want = "dcm.toml:3: a.service has Slice=ml.slice (/etc/systemd/system/a.service:2), and who has partitions runs in dcm.slice\n" +
		"dcm.toml:9: c.service has Slice=user.slice (/run/systemd/generator/c.service:2), and who has partitions runs in dcm.slice"
	if err == nil || err.Error() != want || !strings.Contains(gpu.Hint(err), "Slice=dcm-NAME.slice") {
		t.Errorf("it is refused with %v (%s), want %s", err, gpu.Hint(err), want)
	}
	if err := h.Fits(list)(nil); err == nil || err.Error() != want {
		t.Errorf("a plan is judged with %v", err)
	}
	if _, err := h.ReserveDue(list, true); err != nil {
		t.Errorf("where the next run chooses: %v", err)
	}
	h.plant(t, "run/dcm/partitions.json", `{"version": 1}`)
	if due, err := h.ReserveDue(list, true); !due || err == nil {
		t.Errorf("due is %t, with %v", due, err)
	}
	if got := h.wrong(list); len(got) != 2 {
		t.Errorf("what is wrong is %v", got)
	}
}

// An observer is left where its unit wants it, and it is told what it does not see there.
func TestObserversWithASliceStayThereAndItIsTold(t *testing.T) {
	h := &Host{Root: t.TempDir()}
	h.plant(t, "etc/systemd/system/a.service", "[Service]\nSlice=ml.slice\n")
	h.plant(t, "etc/systemd/system/b.service.d/x.conf", "[Service]\nSlice=dcm-ml.slice\n")
	h.plant(t, "usr/lib/systemd/system/c.service", "[Service]\nExecStart=c\n")
	h.plant(t, "run/systemd/generator/d.service", "[Service]\nSlice=user.slice\n")
	cfg := &config.Config{Observers: []string{"a.service", "b.service", "c.service", "d.service"}}
	if got := h.Order(cfg).Observers; strings.Join(got, " ") != "c.service d.service" {
		t.Errorf("put into dcm.slice are %s", got) // of d the generators see nothing
	}
	if got := cfg.Observers; len(got) != 4 {
		t.Errorf("the configuration has become %s", got)
	}
	got := h.Elsewhere(cfg.Observers)
	if len(got) != 2 || !strings.HasPrefix(got[0], "a.service, one of observers in [guard], has Slice=ml.slice (/etc/systemd/system/a.service:2), and ") ||
		!strings.Contains(got[0], "(Slice=dcm-NAME.slice)") || !strings.HasPrefix(got[1], "d.service, ") {
		t.Errorf("told is %q", got)
	}
	r, err := h.reserve(t.Context(), cfg, false, false)
	if err != nil || strings.Join(r.Notes, "|") != strings.Join(got, "|") {
		t.Errorf("an account has %q, %v", r.Notes, err)
	}
}

// A unit that runs already when it is given a reservation is restarted with it.
func TestUnitsOfNewReservationsAreRestarted(t *testing.T) {
	h := &Host{Root: t.TempDir()}
	list := []config.Reservation{{Name: "a", Unit: "a.service", Partitions: 1, Place: "pack"}, {Name: "b", Unit: "b.service", Partitions: 1}}
	if o := h.Reserve(systemd.Order{}, list); o.Reserved[0].Changed || o.Reserved[1].Changed {
		t.Errorf("at boot: %+v", o.Reserved)
	}
	due := func(selected bool, list ...config.Reservation) bool {
		t.Helper()
		due, err := h.ReserveDue(list, selected)
		if err != nil {
			t.Error(err)
		}
		return due
	}
	if due(true, list...) {
		t.Error("at boot it is due before the run of dcm-apply.service")
	}
	h.plant(t, "run/dcm/last-good.toml", "") // of a daemon, which runs after dcm-apply.service
	if o := h.Reserve(systemd.Order{}, list); !o.Reserved[0].Changed || !o.Reserved[1].Changed {
		t.Errorf("with the list removed: %+v", o.Reserved)
	}
	if !due(true) || !due(false, list...) || due(false) {
		t.Errorf("with the list removed it is due: %t with a profile, %t with reservations, %t without both; want true, true, false", due(true), due(false, list...), due(false))
	}
	h.plant(t, "sys/fs/cgroup/dcm.slice/dcm-lease-0-00000001.scope/cgroup.procs", "")
	if !due(false) {
		t.Error("with the list removed and a lease it is not due")
	}
	last := runstate.Partitions{Reservations: []runstate.Reservation{{Name: "a", Unit: "a.service", Asks: list[0].Asks()}}}
	h.plant(t, "run/dcm/partitions.json", "")
	if err := runstate.PartitionsIn(h.Runtime()).Write(last); err != nil {
		t.Fatal(err)
	}
	if o := h.Reserve(systemd.Order{}, list); o.Reserved[0].Changed || !o.Reserved[1].Changed {
		t.Errorf("with a new one for b: %+v", o.Reserved)
	}
}
