package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/config"
	"dcm/internal/engine/config/configtest"
)

func TestEffective(t *testing.T) {
	p := configtest.Files{
		"usr/lib/dcm/dcm.toml.d/10.toml": "[profiles.p]\ncompute = \"CPX\"\nmemory = \"NPS1\"\nskip = [0, 1]\n",
		"etc/dcm/dcm.toml": "version = 1\nprofile = \"p\"\n[clients]\nunits = [\"a\", \"b\"]\nrequire = true\n[apply]\n[[client]]\nunit = \"c\"\ngpus = [1]\n" +
			"[[reservation]]\nunit = \"r\"\npartitions = 2\nname = \"x\"\n",
		"etc/dcm/dcm.toml.d/10.toml": "[clients]\nunits = [\"a\"]\n[profiles.p]\nmemory = \"NPS4\"\n[profiles.m]\nmig = {\"1g.10gb\" = 2}\n",
		"proc/cmdline":               "ro dcm.profile=m",
	}.Write(t)
	all, err := config.Effective(p)
	configtest.Must(t, err)
	var got []string
	for _, s := range all {
		got = append(got, strings.ReplaceAll(s.Key+" = "+s.TOML()+" "+s.Place(), configtest.RootOf(p), ""))
	}
	want := []string{
		`client[0].gpus = [1] /etc/dcm/dcm.toml:9`,
		`client[0].unit = "c" /etc/dcm/dcm.toml:8`,
		`clients.require = true /etc/dcm/dcm.toml:5`,
		`clients.units = ["a"] /etc/dcm/dcm.toml.d/10.toml:2`,
		`profile = "m" kernel command line`,
		`profiles.m.mig = { "1g.10gb" = 2 } /etc/dcm/dcm.toml.d/10.toml:6`,
		`profiles.p.compute = "CPX" /usr/lib/dcm/dcm.toml.d/10.toml:2`,
		`profiles.p.memory = "NPS4" /etc/dcm/dcm.toml.d/10.toml:4`,
		`profiles.p.skip = [0, 1] /usr/lib/dcm/dcm.toml.d/10.toml:4`,
		`reservation[0].name = "x" /etc/dcm/dcm.toml:13`,
		`reservation[0].partitions = 2 /etc/dcm/dcm.toml:12`,
		`reservation[0].unit = "r" /etc/dcm/dcm.toml:11`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLoad_WarnsOfDroppedEntries(t *testing.T) {
	for _, test := range []struct {
		name, before, now string
		want              []string
	}{
		{"the same", "[clients]\nunits = [\"a\", \"b\"]\n", "[clients]\nunits = [\"b.service\", \"a\", \"c\"]\n", nil},
		{"other keys", "[clients]\nunits = [\"a\"]\n", "[clients]\nrequire = false\n", nil},
		{"all, on purpose", "[clients]\nunits = [\"a\"]\n", "[clients]\nunits = []\n", nil},
		{"clients", "[clients]\nunits = [\"a\", \"b\", \"c\"]\n", "# x\n[clients]\nunits = [\"b\"]\n", []string{
			`/etc/dcm/dcm.toml.d/10.toml:3: clients.units replaces the list at /etc/dcm/dcm.toml:2, so that these entries there have no effect: "a", "c"`}},
		{"observers", "[guard]\nobservers = [\"a\"]\n", "[guard]\nobservers = [\"b\"]\n", []string{
			`/etc/dcm/dcm.toml.d/10.toml:2: guard.observers replaces the list at /etc/dcm/dcm.toml:2, so that these entries there have no effect: "a"`}},
		{"numbers", "[profiles.p]\ncompute = \"SPX\"\nskip = [0, 1]\n", "[profiles.p]\nskip = [1]\n", []string{
			`/etc/dcm/dcm.toml.d/10.toml:2: profiles.p.skip replaces the list at /etc/dcm/dcm.toml:3, so that these entries there have no effect: 0`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := configtest.Load(t, configtest.Files{"etc/dcm/dcm.toml": test.before, "etc/dcm/dcm.toml.d/10.toml": test.now})
			if diff := cmp.Diff(test.want, c.Warnings); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
