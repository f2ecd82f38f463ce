package config_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/config"
	"dcm/internal/engine/config/configtest"
	"dcm/internal/gpu/partition"
)

func TestLoad_MIG(t *testing.T) {
	c := configtest.Load(t, configtest.Files{"etc/dcm/dcm.toml": `
profile = "both"
[profiles.both]
memory = "NPS1"
[[profiles.both.group]]
compute = "CPX"
count = "rest"
[[profiles.both.group]]
gpus = ["0000:41:00.0"]
mig = "off"
[[profiles.both.group]]
device = ["0x2330", "0x20b2:0x1533", "0x20B210DE:0x153310DE"]
mig = { "3g.40gb" = 1, "1c.2g.20gb" = 2 }
count = "rest"
dynamic = true
[profiles.empty]
mig = {}
[profiles.whole]
compute = "CPX"
[profiles.whole.mig]
"1g.10gb+me" = 1
`})
	m, _ := partition.NewMIG(map[string]int{"3g.40gb": 1, "1c.2g.20gb": 2})
	one, _ := partition.NewMIG(map[string]int{"1g.10gb+me": 1})
	a100 := partition.Filter{Device: 0x20b2, SubDevice: 0x1533}
	longer := a100
	longer.SubVendor = 0x10de
	for _, want := range []partition.Profile{
		{Name: "both", Memory: partition.NPS1, Groups: []partition.Group{
			{Compute: partition.CPX, Rest: true},
			{MIG: &partition.MIG{Off: true}, GPUs: []partition.Selector{{Address: "0000:41:00.0"}}},
			{MIG: &m, Devices: []partition.Filter{{Device: 0x2330}, a100, longer}, Rest: true, Dynamic: true},
		}},
		{Name: "empty", MIG: &partition.MIG{}},
		{Name: "whole", Compute: partition.CPX, MIG: &one},
	} {
		if diff := cmp.Diff(want, c.Profiles[want.Name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", want.Name, diff)
		}
	}
	again, err := config.LoadText("again", config.Format(c))
	if err != nil {
		t.Fatalf("%v\nin\n%s", err, config.Format(c))
	}
	if diff := cmp.Diff(c.Profiles, again.Profiles); diff != "" {
		t.Errorf("written and read again (-first +again):\n%s", diff)
	}
}

func TestLoad_ReplacesMIGGeometry(t *testing.T) {
	c := configtest.Load(t, configtest.Files{
		"etc/dcm/dcm.toml":             "[profiles.x]\nmig = { \"1g.10gb\" = 7 }\n",
		"etc/dcm/dcm.toml.d/more.toml": "[profiles.x]\nmig = { \"3g.40gb\" = 2 }\n",
	})
	if got := c.Profiles["x"].MIG.String(); got != "2 × 3g.40gb" {
		t.Errorf("it is %s", got)
	}
}

func TestLoad_PredefinedProfile(t *testing.T) {
	c := configtest.Load(t, configtest.Files{"etc/dcm/dcm.toml": "profile = \"all-1g.10gb.me\"\n"})
	if c.Selected != "all-1g.10gb.me" || c.Profile.Name != c.Selected || c.Profile.Groups[0].Family != "1g.10gb+me" || len(c.Profiles) != 0 {
		t.Errorf("selected is %+v of %v", c.Profile, c.Names())
	}
	own := configtest.Load(t, configtest.Files{"etc/dcm/dcm.toml": "profile = \"all-disabled\"\n[profiles.all-disabled]\ncompute = \"SPX\"\n"})
	if own.Profile.Compute != partition.SPX || own.Profile.MIG != nil {
		t.Errorf("a defined one of the same name is not taken: %+v", own.Profile)
	}
	p := configtest.Files{"etc/dcm/dcm.toml": "profile = \"all-balnced\"\n"}.Write(t)
	if got, want := configtest.Complaint(t, p), `/etc/dcm/dcm.toml:1: profile = "all-balnced": no such profile: none is defined; did you mean "all-balanced"? accepted: all-disabled, all-enabled, all-balanced, all-INSTANCE such as all-1g.10gb`; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestLoad_MIGProfileWithoutQuotes(t *testing.T) {
	for text, want := range map[string]string{
		"[profiles.a]\nmig = { 1g.10gb = 2 }\n":        `/etc/dcm/dcm.toml:2: profiles.a.mig.1g: TOML reads a name with a dot as two keys; write the MIG profile in quotes; accepted: "1g.10gb" = 2`,
		"[profiles.a.mig]\n1c.3g.40gb = 4\n":           `/etc/dcm/dcm.toml:2: profiles.a.mig.1c: TOML reads a name with a dot as two keys; write the MIG profile in quotes; accepted: "1c.3g.40gb" = 4`,
		"[profiles.a.mig]\n1g.10gb = 1\n1g.20gb = 3\n": `/etc/dcm/dcm.toml:2: profiles.a.mig.1g: TOML reads a name with a dot as two keys; write the MIG profile in quotes; accepted: "1g.10gb" = 1, "1g.20gb" = 3`,
		"[profiles.a]\nmig = { other.name = 2 }\n":     `/etc/dcm/dcm.toml:2: profiles.a.mig.other: not a MIG profile; accepted: names such as 1g.10gb, 1c.3g.40gb or 1g.10gb+me; dcm check lists those of a GPU`,
	} {
		p := configtest.Files{"etc/dcm/dcm.toml": text}.Write(t)
		if got := configtest.Complaint(t, p); got != want {
			t.Errorf("%q:\n%s\nwant\n%s", text, got, want)
		}
	}
}
