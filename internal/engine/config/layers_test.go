package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/config"
	"dcm/internal/engine/config/configtest"
	"dcm/internal/gpu/partition"
)

func TestLoad_MergesLayers(t *testing.T) {
	c := configtest.Load(t, configtest.Files{
		"usr/lib/dcm/dcm.toml.d/10.toml": "[profiles.p]\ncompute = \"CPX\"\nmemory = \"NPS1\"\nskip = [0, 1]\n",
		"etc/dcm/dcm.toml":               "version = 1\nprofile = \"p\"\n[clients]\nunits = [\"a\", \"b\"]\nrequire = true\n[apply]\nreboot = \"once\"\n",
		"etc/dcm/dcm.toml.d/10.toml":     "[clients]\nunits = [\"c\"]\n[profiles.p]\nmemory = \"NPS4\"\nskip = [2]\n",
		"etc/dcm/dcm.toml.d/20.toml":     "[apply]\nreboot = \"never\"\non-failure = \"keep\"\n",
	})
	want := partition.Profile{Name: "p", Compute: partition.CPX, Memory: partition.NPS4, Skip: []partition.Selector{{Index: 2}}}
	if diff := cmp.Diff(want, c.Profile); diff != "" {
		t.Errorf("profile (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"c.service"}, c.Clients); diff != "" {
		t.Errorf("an array replaces; clients (-want +got):\n%s", diff)
	}
	if !c.Require || c.Reboot != config.Never || c.OnFailure != config.Keep {
		t.Errorf("require %v, reboot %v, on-failure %v", c.Require, c.Reboot, c.OnFailure)
	}
	if got, want := c.Origin["p"], "/etc/dcm/dcm.toml.d/10.toml:3"; got != want {
		t.Errorf("the profile comes from %s, want %s", got, want)
	}
}

func TestLoad_LastLayerSelects(t *testing.T) {
	const profiles = "[profiles.a]\ncompute = \"SPX\"\n[profiles.b]\ncompute = \"CPX\"\n[profiles.\"c d\"]\ncompute = \"CPX\"\n"
	sel := func(name string) string { return "# x\nprofile = \"" + name + "\"\n" }
	for _, test := range []struct {
		name         string
		files        configtest.Files
		want, source string
	}{
		{"nothing", configtest.Files{}, "", ""},
		{"shipped", configtest.Files{"usr/lib/dcm/dcm.toml.d/50.toml": sel("a")}, "a", "/usr/lib/dcm/dcm.toml.d/50.toml:2"},
		{"admin over shipped", configtest.Files{"usr/lib/dcm/dcm.toml.d/50.toml": sel("a"), "etc/dcm/dcm.toml": sel("b")}, "b", "/etc/dcm/dcm.toml:2"},
		{"empty over shipped", configtest.Files{"usr/lib/dcm/dcm.toml.d/50.toml": sel("a"), "etc/dcm/dcm.toml": sel("")}, "", "/etc/dcm/dcm.toml:2"},
		{"drop-in over admin", configtest.Files{"etc/dcm/dcm.toml": sel("b"), "etc/dcm/dcm.toml.d/1.toml": sel("a")}, "a", "/etc/dcm/dcm.toml.d/1.toml:2"},
		{"lexical order", configtest.Files{"etc/dcm/dcm.toml.d/10.toml": sel("a"), "etc/dcm/dcm.toml.d/9.toml": sel("b")}, "b", "/etc/dcm/dcm.toml.d/9.toml:2"},
		{"same name masks nothing", configtest.Files{"usr/lib/dcm/dcm.toml.d/1.toml": sel("a"), "etc/dcm/dcm.toml.d/1.toml": "[clients]\n"}, "a", "/usr/lib/dcm/dcm.toml.d/1.toml:2"},
		{"run over etc", configtest.Files{"etc/dcm/dcm.toml.d/99.toml": sel("a"), "run/dcm/dcm.toml.d/1.toml": sel("b")}, "b", "/run/dcm/dcm.toml.d/1.toml:2"},
		{"kernel over run", configtest.Files{"run/dcm/dcm.toml.d/1.toml": sel("b"), "proc/cmdline": "dcm.profile=a\n"}, "a", "kernel command line"},
		{"kernel selects none", configtest.Files{"etc/dcm/dcm.toml": sel("b"), "proc/cmdline": "dcm.profile=none ro"}, "", "kernel command line"},
		{"last on the command line", configtest.Files{"proc/cmdline": "dcm.profile=none dcm.profile=a dcm.profile=b"}, "b", "kernel command line"},
		{"quoted on the command line", configtest.Files{"proc/cmdline": `x="y dcm.profile=a" dcm.profile="c d"`}, "c d", "kernel command line"},
		{"not ours", configtest.Files{"proc/cmdline": "xdcm.profile=a dcm.profiles=a -- quiet"}, "", ""},
		{"none in a file", configtest.Files{"etc/dcm/dcm.toml": sel("none")}, "", "/etc/dcm/dcm.toml:2"},
		{"hidden and other files do not count", configtest.Files{
			"etc/dcm/dcm.toml.d/.x.toml": "!", "etc/dcm/dcm.toml.d/x.toml~": "!", "etc/dcm/dcm.toml.d/README": "!", "etc/dcm/dcm.toml.d/x.toml.dpkg-new": "!",
		}, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.files["usr/lib/dcm/dcm.toml.d/00.toml"] = profiles
			c := configtest.Load(t, test.files)
			if c.Selected != test.want || c.Source != test.source || c.Profile.Name != test.want {
				t.Errorf("selected %q by %q as %+v, want %q by %q", c.Selected, c.Source, c.Profile, test.want, test.source)
			}
		})
	}
}

func TestCommandLine_Split(t *testing.T) {
	for line, want := range map[string][]string{
		"":                       nil,
		" \t\n":                  nil,
		"a b=c  d\n":             {"a", "b=c", "d"},
		`a="b c" d`:              {"a=b c", "d"},
		`"a=b c" d`:              {"a=b c", "d"},
		`"a b"`:                  {"a b"},
		`a=b" c" d`:              {`a=b" c"`, "d"},
		`a="b`:                   {"a=b"},
		`"`:                      {""},
		`a=""`:                   {"a="},
		`a="b"c`:                 {`a=b"c`},
		`a="=" b="c=d e" "f"=g"`: {"a==", "b=c=d e", `f"=g`},
	} {
		if diff := cmp.Diff(want, config.Arguments(line)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", line, diff)
		}
	}
}

func TestCommandLine_BadProfile(t *testing.T) {
	for line, want := range map[string]string{
		"dcm.profile=spx-nps": `kernel command line: dcm.profile = "spx-nps": no such profile; did you mean "spx-nps1"? accepted: spx-nps1`,
		"dcm.profile":         `kernel command line: dcm.profile: has no value; accepted: dcm.profile=NAME, dcm.profile=none`,
	} {
		p := configtest.Files{"etc/dcm/dcm.toml": "[profiles.spx-nps1]\ncompute = \"SPX\"\n", "proc/cmdline": line}.Write(t)
		if diff := cmp.Diff(want, configtest.Complaint(t, p)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
}

func TestLoad_KubernetesForm(t *testing.T) {
	c := configtest.Load(t, configtest.Files{
		"etc/dcm/config.json": configtest.Operators,
		"etc/dcm/dcm.toml":    "profile = \"cpx-profile\"\n[profiles.spx-profile]\nmemory = \"NPS2\"\n",
	})
	want := map[string]partition.Profile{
		"cpx-profile": {Name: "cpx-profile", Compute: partition.CPX, Memory: partition.NPS4},
		"spx-profile": {Name: "spx-profile", Compute: partition.SPX, Memory: partition.NPS2},
	}
	if diff := cmp.Diff(want, c.Profiles); diff != "" {
		t.Errorf("profiles (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"amd-metrics-exporter.service", "gpuagent.service"}, c.Clients); diff != "" {
		t.Errorf("clients (-want +got):\n%s", diff)
	}
	if got, want := c.Origin["cpx-profile"], "/etc/dcm/config.json:2"; got != want {
		t.Errorf("origin %s, want %s", got, want)
	}
}

func TestKubernetesForm_BrokenProfileNamed(t *testing.T) {
	p := configtest.Files{
		"etc/dcm/config.json": "{\"gpu-config-profiles\": {\"a\": {\n\"profiles\": [{\"computePartition\": \"CPX\", \"memoryPartition\": \"NPS3\", \"numGPUsAssigned\": 8}]}}}",
		"etc/dcm/dcm.toml":    "profile = \"a\"\n",
	}.Write(t)
	want := `/etc/dcm/config.json:2: gpu-config-profiles.a.profiles.memoryPartition = "NPS3": not a memory partition mode; accepted: NPS1, NPS2, NPS4, NPS8`
	if diff := cmp.Diff(want, configtest.Complaint(t, p)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestLookup_Suggests(t *testing.T) {
	c := configtest.Load(t, configtest.Files{"etc/dcm/dcm.toml": "[profiles.cpx-nps4]\ncompute = \"CPX\"\n"})
	if p, err := c.Lookup("cpx-nps4"); err != nil || p.Compute != partition.CPX {
		t.Errorf("got %+v, %v", p, err)
	}
	for name, want := range map[string]string{
		"cpx_nps4":    `"cpx_nps4": no such profile; did you mean "cpx-nps4"? accepted: cpx-nps4`,
		"MIG 2g.20gb": `"MIG 2g.20gb": no such profile; did you mean "all-2g.20gb"? accepted: cpx-nps4, all-disabled, all-enabled, all-balanced, all-INSTANCE such as all-1g.10gb`,
	} {
		if _, err := c.Lookup(name); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestLoad_WarnsOfHiddenSelection(t *testing.T) {
	const profiles = "[profiles.a]\ncompute = \"SPX\"\n[profiles.b]\ncompute = \"CPX\"\n"
	for _, test := range []struct {
		name, admin, command string
		want                 []string
	}{
		{"another one", "profile = \"a\"\n", "profile = \"b\"\n",
			[]string{`/etc/dcm/dcm.toml:1: profile = "a" has no effect: /etc/dcm/dcm.toml.d/zz-selected.toml:1 selects "b"`}},
		{"the same one", "profile = \"a\"\n", "profile = \"a\"\n", nil},
		{"where none was selected", "profile = \"none\"\n", "profile = \"b\"\n", nil},
		{"where nothing was said", "", "profile = \"b\"\n", nil},
	} {
		c := configtest.Load(t, configtest.Files{"etc/dcm/dcm.toml": test.admin + profiles, "etc/dcm/dcm.toml.d/zz-selected.toml": test.command})
		if diff := cmp.Diff(test.want, c.Warnings); diff != "" {
			t.Errorf("%s: warnings (-want +got):\n%s", test.name, diff)
		}
	}
	c := configtest.Load(t, configtest.Files{"etc/dcm/dcm.toml": "profile = \"a\"\n" + profiles, "run/dcm/dcm.toml.d/zz-selected.toml": "profile = \"b\"\n"})
	if c.Selected != "b" || len(c.Warnings) > 0 {
		t.Errorf("until reboot: selected %s, warnings %q; want b without a warning", c.Selected, c.Warnings)
	}
}

func TestKubernetesForm_WarnsOfUnselectedProfile(t *testing.T) {
	c := configtest.Load(t, configtest.Files{"etc/dcm/config.json": configtest.Fleet, "etc/dcm/dcm.toml": "profile = \"all\"\n"})
	if c.Selected != "all" || len(c.Warnings) != 3 {
		t.Errorf("selected %q, warnings %q", c.Selected, c.Warnings)
	}
	if _, err := c.Lookup("odd"); err == nil || !strings.Contains(err.Error(), `profile "odd" cannot be selected: `) || !strings.Contains(err.Error(), "NPS16") {
		t.Errorf("looked up: %v", err)
	}
	got := configtest.Complaint(t, configtest.Files{"etc/dcm/config.json": configtest.Fleet, "etc/dcm/dcm.toml": "profile = \"odd\"\n"}.Write(t))
	if !strings.HasPrefix(got, `/etc/dcm/config.json:5: gpu-config-profiles.odd.profiles.computePartition = "FPX": not`) || strings.Contains(got, "no such profile") {
		t.Errorf("selected: %s", got)
	}
	c = configtest.Load(t, configtest.Files{"etc/dcm/config.json": configtest.Fleet, "etc/dcm/dcm.toml": "profile = \"odd\"\n[profiles.odd]\ncompute = \"CPX\"\n"})
	if c.Profile.Compute != partition.CPX || len(c.Warnings) != 2 {
		t.Errorf("defined otherwise: %+v, warnings %q", c.Profile, c.Warnings)
	}
	got = configtest.Complaint(t, configtest.Files{"etc/dcm/config.json": configtest.Fleet, "proc/cmdline": "dcm.profile=odd"}.Write(t))
	if !strings.HasPrefix(got, `/etc/dcm/config.json:5: gpu-config-profiles.odd`) {
		t.Errorf("selected on the command line: %s", got)
	}
}
