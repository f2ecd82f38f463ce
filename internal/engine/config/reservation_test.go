package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/config"
	"dcm/internal/gpu/partition"
)

// written puts files into a root of the test's own and returns its paths.
func written(t *testing.T, files map[string]string) config.Paths {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, "etc/dcm", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return config.DefaultPaths(root)
}

const two = `profile = ""

[[reservation]]
unit = "vllm@a"
partitions = 2
place = "spread"
exclusive = true
gpus = [0, "0000:26:00.0"]

[[reservation]]
name = "slurm"
partitions = 4
vendor = "nvidia"
mode = "3g.40gb"
`

// An instance that is created on demand is for one unit, and excludes the keys of chosen partitions.
func TestLoad_ReservationMakes(t *testing.T) {
	for _, tt := range []struct{ keys, want string }{
		{"unit = \"vllm\"\nmake = \"2g.20gb\"", ""},
		{"unit = \"vllm@\"\nmake = \"1g.10gb+me\"\nname = \"a\"\ngpus = [0]", ""},
		{"unit = \"vllm\"\nmake = \"\"", "reservation.make"},
		{"unit = \"vllm\"\nmake = \"1c.2g.20gb\"", "not the profile of a whole GPU instance"},
		{"unit = \"vllm\"\nmake = 2", "reservation.make"},
		{"unit = \"vllm\"\nmake = \"2g.20gb\"\npartitions = 1", "cannot be combined with make"},
		{"unit = \"vllm@\"\nmake = \"2g.20gb\"\nshare = 2", "cannot be combined with make"},
		{"unit = \"vllm\"\nmake = \"2g.20gb\"\nexclusive = true", "cannot be combined with make"},
		{"unit = \"vllm\"\nmake = \"2g.20gb\"\nmode = \"2g.20gb\"", "cannot be combined with make"},
		{"name = \"slurm\"\nmake = \"2g.20gb\"", "unit is missing: its start"},
		{"unit = \"" + strings.Repeat("v", 201) + "\"\nmake = \"2g.20gb\"", "the name is too long for make"},
		{"unit = \"vllm\"", "partitions is missing"},
	} {
		_, err := config.Load(written(t, map[string]string{"dcm.toml": "profile = \"\"\n[[reservation]]\n" + tt.keys + "\n"}))
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%q: got %v, want %q", tt.keys, err, tt.want)
		}
	}
}

// A reservation for a user has no partitions of its own: it is none of those for units.
func TestLoad_UserReservations(t *testing.T) {
	paths := written(t, map[string]string{"dcm.toml": two + "\n[[reservation]]\nuser = \"alice\"\ngpus = [0, \"0000:26:00.0\"]\nwhen = \"Mon..Fri  08:00..18:00\"\n[[reservation]]\nuser = \"1000\"\ngpus = [1]\n"})
	c, err := config.Load(paths)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range c.UserReservations {
		got = append(got, fmt.Sprintf("%s %v %q %s", r.User, r.GPUs, r.Hours, filepath.Base(r.Source)))
	}
	if diff := cmp.Diff([]string{`alice [0 0000:26:00.0] "Mon..Fri 08:00..18:00" dcm.toml:16`, `1000 [1] "" dcm.toml:20`}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if all, lost := config.Reservations(paths); len(c.Reservations) != 2 || len(all) != 2 || len(lost) != 0 {
		t.Errorf("reservations for units: got %v, %v and %v, want two", c.Reservations, all, lost)
	}
	again, err := config.Load(written(t, map[string]string{"dcm.toml": config.Format(c)}))
	if err != nil || len(again.UserReservations) != 2 || again.UserReservations[0].Hours != c.UserReservations[0].Hours {
		t.Errorf("formatted and read again: %v, %v", again, err)
	}
}

func TestMakesFor_InstanceBeforeTemplate(t *testing.T) {
	list := []config.Reservation{{Unit: "vllm@.service", Make: "2g.20gb"}, {Unit: "vllm@a.service", Partitions: 1}, {Unit: "one.service", Make: "1g.10gb"}}
	for unit, want := range map[string]string{"vllm@b.service": "2g.20gb", "vllm@a.service": "", "one.service": "1g.10gb", "other.service": "", "vllm.service": ""} {
		if r, ok := config.MakesFor(list, unit); ok != (want != "") || ok && r.Make != want {
			t.Errorf("%s: got %q, %t, want %q", unit, r.Make, ok, want)
		}
	}
}

func TestLoad_Reservations(t *testing.T) {
	p := written(t, map[string]string{
		"dcm.toml":                two + "[leases]\nmax-per-user = 8\nmax-slots-per-user = 16\nshares = 3\n[guard]\nobservers = [\"exporter\"]\n",
		"dcm.toml.d/50-more.toml": "[[reservation]]\nunit = \"ollama.service\"\npartitions = 1\n[[reservation]]\nunit = \"notebook@\"\npartitions = 1\nshare = 3\n",
	})
	cfg, err := config.Load(p)
	if err != nil {
		t.Fatal(err)
	}
	want := []config.Reservation{
		{Name: "vllm-a", Unit: "vllm@a.service", Partitions: 2, Place: "spread", Exclusive: true, GPUs: []partition.Selector{{Index: 0}, {Address: "0000:26:00.0"}}},
		{Name: "slurm", Partitions: 4, Place: "pack", Sought: partition.Criteria{Vendor: partition.NVIDIA, Mode: "3g.40gb"}},
		{Name: "ollama", Unit: "ollama.service", Partitions: 1, Place: "pack"},
		{Name: "notebook", Unit: "notebook@.service", Partitions: 1, Place: "pack", Share: 3},
	}
	ignore := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Source" }, cmp.Ignore())
	if diff := cmp.Diff(want, cfg.Reservations, ignore); diff != "" {
		t.Errorf("reservations (-want +got):\n%s", diff)
	}
	alone, lost := config.Reservations(p)
	if diff := cmp.Diff(cfg.Reservations, alone); diff != "" || len(lost) > 0 {
		t.Errorf("read on their own (-all +alone, lost %s):\n%s", lost, diff)
	}
	if cmp.Diff(config.Leases{PerUser: 8, SlotsPerUser: 16, IdleTime: 5 * time.Minute, DwellTime: time.Minute, HeldMemory: config.LastHeldMemory, Clean: config.CleanIfSupported, Shares: 3}, cfg.Leases) != "" || cmp.Diff([]string{"exporter.service"}, cfg.Observers) != "" {
		t.Errorf("leases are %+v, observers %s", cfg.Leases, cfg.Observers)
	}
	if got := cfg.Reservations[2].Source; !strings.HasSuffix(got, "50-more.toml:1") {
		t.Errorf("the third comes from %s", got)
	}
}

func TestLoad_BadReservations(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"[[reservation]]\npartitions = 1\n", `:1: reservation: unit, name or user is missing; accepted: unit = "vllm.service"`},
		{"[[reservation]]\nunit = \"a\"\n", ":1: reservation: partitions is missing"},
		{"[[reservation]]\nunit = \"a\"\npartitions = 0\n", ":3: reservation.partitions = 0: out of range; accepted: 1 to 1024"},
		{"[[reservation]]\nunit = \"a@.service\"\npartitions = 1\n", "a template needs share; accepted: an instance, such as a@a.service"},
		{"[[reservation]]\nunit = \"a@\"\npartitions = 1\nshare = 1\n", ":4: reservation.share = 1: out of range; accepted: 2 to 64"},
		{"[[reservation]]\nunit = \"a\"\npartitions = 1\nshare = 2\n", `:4: reservation.share = 2: share is valid only with a template; accepted: unit = "vllm@.service"`},
		{"[[reservation]]\nname = \"a\"\npartitions = 1\ndevices = [\"/dev/fuse\"]\n", `:4: reservation.devices: devices is valid only with unit; accepted: unit = "vllm.service"`},
		{"[[reservation]]\nunit = \"a\"\npartitions = 1\ndevices = [\"/dev/dri/*\"]\n", `:4: reservation.devices = "/dev/dri/*": device nodes of GPUs`},
		{"[[reservation]]\nname = \"a\"\npartitions = 1\nshare = 2\n", "share is valid only with a template"},
		{"[[reservation]]\nunit = \"a.socket\"\npartitions = 1\n", "not a service"},
		{"[[reservation]]\nunit = \"dcm-apply\"\npartitions = 1\n", "dcm's own unit"},
		{"[[reservation]]\nname = \"vllm.beside\"\npartitions = 1\n", `:2: reservation.name = "vllm.beside": the suffix is reserved for links`},
		{"[[reservation]]\nunit = \"vllm.beside\"\npartitions = 1\n", `the unit's name is not a valid reservation name (found "vllm.beside")`},
		{"[[reservation]]\nname = \"../x\"\npartitions = 1\n", `:2: reservation.name = "../x": not a valid reservation name`},
		{"[[reservation]]\nname = \"x\"\npartitions = 1\nplace = \"near\"\n", `not a place; accepted: pack, spread, link`},
		{"[[reservation]]\nname = \"x\"\npartitions = 1\ngpus = []\n", "the list is empty"},
		{"[[reservation]]\nname = \"x\"\npartions = 1\npartitions = 1\n", `:3: reservation.partions = 1: unknown key; did you mean "partitions"?`},
		{"[[reservation]]\nunit = \"a\"\npartitions = 1\n[[reservation]]\nunit = \"a.service\"\npartitions = 1\n", ":4: reservation: a.service already has a reservation, at "},
		{"[[reservation]]\nunit = \"a@b\"\npartitions = 1\n[[reservation]]\nunit = \"a-b\"\npartitions = 1\n", `:4: reservation: the name "a-b" is already used, at `},
		{"[[reservation]]\nname = \"x\"\npartitions = 1\nvendor = \"intel\"\n", `:4: reservation.vendor = "intel": not a vendor; accepted: amd, nvidia`},
		{"[[reservation]]\nname = \"x\"\npartitions = 1\nmode = \"3g\"\n", `:4: reservation.mode = "3g": not a mode of partitions; accepted: a compute mode, such as CPX`},
		{"[[reservation]]\nname = \"x\"\npartitions = 1\nvendor = \"amd\"\nmode = \"3g.40gb\"\n", `:5: reservation.mode = "3g.40gb": mode 3g.40gb is for partitions of NVIDIA (want one for AMD)`},
		{"[[reservation]]\nname = \"x\"\npartitions = 1\nvendor = 3\nmode = \"3g.40gb\"\n", ":4: reservation.vendor = 3: "},
		{"[leases]\nmax-slots-per-user = -1\n", ":2: leases.max-slots-per-user = -1: out of range"},
		{"[leases]\nidle-time = 5\n", `:2: leases.idle-time = 5: has no unit; did you mean "5m"? accepted: a duration from "0s" to "24h", such as "5m"`},
		{"[leases]\ndwell-time = \"25h\"\n", `:2: leases.dwell-time = "25h": out of range`},
		{"[leases]\nmax-per-user = -1\n", ":2: leases.max-per-user = -1: out of range"},
		{"[leases]\ndefault-time = 8\n", `:2: leases.default-time = 8: has no unit; did you mean "8h"? accepted: a duration from 1s to 8760h, such as "30m" or "8h", or "0" for no limit`},
		{"[leases]\nmax-time = \"1d\"\n", `:2: leases.max-time = "1d": not a duration; accepted: a duration from 1s`},
		{"[leases]\nmax-time = \"-1h\"\n", `:2: leases.max-time = "-1h": out of range`},
		{"[leases]\nmax-time = \"2h\"\ndefault-time = \"3h\"\n", `:3: leases.default-time = "3h": longer than max-time; accepted: at most "2h"`},
		{"[leases.groups.course]\nmax-per-group = 8\n", `:2: leases.groups.course.max-per-group = 8: unknown key; accepted: devices, max-per-user, max-time, max-total`},
		{"[leases.groups.course]\nmax-total = 2000\n", ":2: leases.groups.course.max-total = 2000: out of range; accepted: 0 to 1024"},
		{"[leases.groups]\ncourse = 8\n", ":2: leases.groups.course = 8: must be a table, not an integer"},
		{"[leases.groups.\"a:b\"]\n", `:1: leases.groups."a:b": not a valid group name; accepted: a group's name or number`},
	} {
		_, err := config.Load(written(t, map[string]string{"dcm.toml": tt.text}))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q:\n%v\nwant %q", tt.text, err, tt.want)
		}
	}
}

// What is wrong elsewhere lets no reserved unit start unconfined.
func TestReservations_InBrokenFiles(t *testing.T) {
	for _, tt := range []struct{ name, text, units, lost string }{
		{"an unknown key", "profil = 1\n" + two, "vllm@a.service ", ""},
		{"no TOML before", "profile = \n" + two, "vllm@a.service ", ""},
		{"no TOML after", two + "[clients\nunits = [\n", "vllm@a.service ", ""},
		{"a mistake in one", "[[reservation]]\nunit = \"a\"\npartitions = 0\n" + two, "a.service! vllm@a.service ", ""},
		{"one that is no TOML", "[[reservation]]\nunit = \"a\"\npartitions = \n" + two, "vllm@a.service ", "a"},
		{"one without a name", "[[reservation]]\npartitions = 1\n", "", "an unknown unit"},
		{"nothing", "", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// A profile that is set twice is no TOML either.
			all, lost := config.Reservations(written(t, map[string]string{"dcm.toml": strings.Replace(tt.text, "profile = \"\"\n", "", 1)}))
			var units []string
			for _, r := range all {
				name := r.Unit
				if r.Broken {
					name += "!"
				}
				units = append(units, name)
			}
			if got := strings.Join(units, " "); got != tt.units {
				t.Errorf("read are %q, want %q", got, tt.units)
			}
			if got := strings.Join(lost, ", "); got != tt.lost {
				t.Errorf("lost are %q, want %q", got, tt.lost)
			}
		})
	}
}
