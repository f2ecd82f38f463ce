package selection

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/config"
	"dcm/internal/engine/config/configtest"
	"dcm/internal/engine/config/source"
	"dcm/internal/gpu/partition"
)

const (
	letting = "[agent]\nenabled = true\n"
	twoOf   = "version = 1\n[profiles.fast]\ncompute = \"CPX\"\nmemory = \"NPS4\"\n[profiles.slow]\ncompute = \"SPX\"\n"
	ofAMDs  = `{"gpu-config-profiles": {
  "fast": {"skippedGPUs": {"ids": []}, "profiles": [{"computePartition": "CPX", "memoryPartition": "NPS4", "numGPUsAssigned": 8}]},
  "rest": {"profiles": [{"computePartition": "SPX", "memoryPartition": "NPS1"}]},
  "odd":  {"profiles": [{"computePartition": "XXX", "memoryPartition": "NPS1"}]}},
 "gpuClientSystemdServices": {"names": ["gpuagent", "amd-metrics-exporter"]}}`
)

func TestInstall(t *testing.T) {
	for name, tt := range map[string]struct {
		text, profile string
		want          partition.Profile
	}{
		"toml":            {twoOf, "fast", partition.Profile{Name: "fast", Compute: partition.CPX, Memory: partition.NPS4}},
		"json":            {ofAMDs, "fast", partition.Profile{Name: "fast", Compute: partition.CPX, Memory: partition.NPS4}},
		"without a count": {ofAMDs, "rest", partition.Profile{Name: "rest", Compute: partition.SPX, Memory: partition.NPS1}},
		"empty":           {"", "all-disabled", mustCommon(t, "all-disabled")},
	} {
		t.Run(name, func(t *testing.T) {
			p := configtest.Files{"etc/dcm/dcm.toml": letting + "[clients]\nunits = [\"gpuagent\"]\n"}.Write(t)
			if _, err := Install(p, tt.text, tt.profile); err != nil {
				t.Fatal(err)
			}
			c, err := config.Load(p)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, c.Profile); diff != "" {
				t.Errorf("profile (-want +got):\n%s", diff)
			}
			if want := p.Agent + ":4"; c.Source != want {
				t.Errorf("selected by %s, want %s", c.Source, want)
			}
			if diff := cmp.Diff([]string{"gpuagent.service"}, c.Clients); diff != "" {
				t.Errorf("clients (-want +got):\n%s", diff)
			}
		})
	}
}

func mustCommon(t *testing.T, name string) partition.Profile {
	t.Helper()
	p, ok := partition.Predefined(name)
	if !ok {
		t.Fatalf("%s is no common profile", name)
	}
	return p
}

func TestInstall_Refused(t *testing.T) {
	for name, tt := range map[string]struct {
		files         configtest.Files
		text, profile string
		want          string // in the error
		key           string // of a refusal
	}{
		"off":                       {nil, twoOf, "fast", "agents may not select", "agent.enabled"},
		"switched off by a drop-in": {configtest.Files{"etc/dcm/dcm.toml.d/1.toml": "[agent]\nenabled = false"}, twoOf, "fast", "agents may not select", "agent.enabled"},
		"a library":                 {nil, "[gpu]\nlibrary = \"/x.so\"\n" + twoOf[12:], "fast", "dcm.toml:2: gpu.library", "gpu.library"},
		"clients":                   {nil, "[clients]\nunits = [\"a\"]", "fast", "clients.units", "clients.units"},
		"a reservation":             {nil, "[[reservation]]\nunit = \"a\"\npartitions = 1", "fast", "reservation", "reservation"},
		"this socket":               {nil, letting, "fast", "agent.enabled", "agent.enabled"},
		"a reboot":                  {nil, "[apply]\nreboot = \"once\"", "fast", "apply.reboot", "apply.reboot"},
		"broken":                    {nil, "[profiles.fast", "fast", "dcm.toml:1: not TOML", ""},
		"broken json":               {nil, "{", "fast", "config.json:1", ""},
		"an unknown key":            {nil, "[profiles.fast]\ncompte = \"CPX\"", "fast", `did you mean "compute"`, ""},
		"no such profile":           {nil, twoOf, "fats", `did you mean "fast"`, ""},
		"none":                      {nil, twoOf, "none", "no such profile", ""},
		"one that cannot be had":    {nil, ofAMDs, "odd", "not a compute partition mode", ""},
		"a drop-in selects":         {configtest.Files{"etc/dcm/dcm.toml.d/9.toml": "profile = \"mine\"\n[profiles.mine]\ncompute = \"SPX\""}, twoOf, "fast", "dcm.toml.d/9.toml:1 has precedence", "profile"},
		"the command line selects":  {configtest.Files{"proc/cmdline": "quiet dcm.profile=all-disabled"}, twoOf, "fast", "kernel command line has precedence", "profile"},
		"selected until reboot":     {configtest.Files{"run/dcm/dcm.toml.d/zz-selected.toml": "profile = \"all-disabled\"\ninstead = \"none\""}, twoOf, "fast", "zz-selected.toml:1 has precedence", "profile"},
		"a drop-in changes it":      {configtest.Files{"etc/dcm/dcm.toml.d/9.toml": "[profiles.fast]\ncompute = \"SPX\""}, twoOf, "fast", "profile \"fast\" is defined differently on this host: see ", "profiles.fast"},
		"not UTF-8":                 {nil, "\xff", "fast", "not UTF-8", ""},
		"too large":                 {nil, strings.Repeat("#", 64<<10+1), "fast", "want at most 64 KiB", ""},
	} {
		t.Run(name, func(t *testing.T) {
			all := configtest.Files{"etc/dcm/dcm.toml": letting}
			if name == "off" {
				all = configtest.Files{"etc/dcm/dcm.toml": "version = 1\n"}
			}
			for path, text := range tt.files {
				all[path] = text
			}
			p := all.Write(t)
			_, err := Install(p, tt.text, tt.profile)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error %v, want %q", err, tt.want)
			}
			var refused *config.NotAllowedError
			if key := tt.key; key != "" && (!errors.As(err, &refused) || refused.Key != key) {
				t.Errorf("%#v names no key %s", refused, key)
			}
			if _, err := os.Lstat(p.Agent); err == nil {
				t.Error("something was written")
			}
		})
	}
}

func TestInstall_Undo(t *testing.T) {
	p := configtest.Files{"etc/dcm/dcm.toml": letting}.Write(t)
	first, err := Install(p, twoOf, "fast")
	if err != nil {
		t.Fatal(err)
	}
	selected := func(want string) {
		t.Helper()
		if c, err := config.Load(p); err != nil || c.Selected != want {
			t.Fatalf("selected is %q, want %q, %v", c.Selected, want, err)
		}
	}
	second, err := Install(p, twoOf, "slow")
	if err != nil {
		t.Fatal(err)
	}
	selected("slow")
	if err := second(); err != nil {
		t.Fatal(err)
	}
	selected("fast")
	if err := second(); err != nil { // it is not what it has installed any more
		t.Fatal(err)
	}
	selected("fast")
	if err := first(); err != nil {
		t.Fatal(err)
	}
	selected("")
	if _, err := os.Lstat(p.Agent); err == nil {
		t.Error("the file is left")
	}
}

func TestAgentFile_EnabledByAdministrator(t *testing.T) {
	installed := "profile = \"fast\"\n[profiles.fast]\ncompute = \"CPX\"\n"
	for name, tt := range map[string]struct {
		files configtest.Files
		want  string // selected
		warn  string
	}{
		"off":                         {configtest.Files{"etc/dcm/dcm.toml": "profile = \"all-disabled\""}, "all-disabled", "agent.toml: has no effect"},
		"off, broken":                 {configtest.Files{"etc/dcm/dcm.toml": "profile = \"all-disabled\"", "etc/dcm/agent.toml": "["}, "all-disabled", "agent.toml: has no effect"},
		"on":                          {configtest.Files{"etc/dcm/dcm.toml": letting}, "fast", ""},
		"on, and dcm.toml selects":    {configtest.Files{"etc/dcm/dcm.toml": "profile = \"all-disabled\"\n" + letting}, "fast", "dcm.toml:1: profile = \"all-disabled\" has no effect"},
		"on by a drop-in":             {configtest.Files{"etc/dcm/dcm.toml.d/1.toml": letting}, "fast", ""},
		"a drop-in selects":           {configtest.Files{"etc/dcm/dcm.toml": letting, "etc/dcm/dcm.toml.d/1.toml": "profile = \"all-disabled\""}, "all-disabled", "agent.toml:1: profile = \"fast\" has no effect"},
		"dcm.toml defines the same":   {configtest.Files{"etc/dcm/dcm.toml": letting + "[profiles.fast]\nmemory = \"NPS4\"\n[[profiles.fast.group]]\ncompute = \"SPX\"\ncount = \"rest\""}, "fast", "profile \"fast\" has no effect: an agent defines it"},
		"dcm.toml defines it equally": {configtest.Files{"etc/dcm/dcm.toml": letting + "[profiles.fast]\ncompute = \"CPX\"\n"}, "fast", ""},
	} {
		t.Run(name, func(t *testing.T) {
			all := configtest.Files{"etc/dcm/agent.toml": installed}
			for path, text := range tt.files {
				all[path] = text
			}
			c := configtest.Load(t, all)
			if c.Selected != tt.want {
				t.Errorf("selected is %q, want %q", c.Selected, tt.want)
			}
			if warned := strings.Join(c.Warnings, "\n"); !strings.Contains(warned, tt.warn) || tt.warn == "" && warned != "" {
				t.Errorf("warnings %q, want %q", warned, tt.warn)
			}
			if c.Selected == "fast" && (c.Profile.Memory != "" || len(c.Profile.Groups) > 0) {
				t.Errorf("the profile is mixed with another: %+v", c.Profile)
			}
		})
	}
}

func TestAgentFile_ProfilesOnly(t *testing.T) {
	p := configtest.Files{"etc/dcm/dcm.toml": letting, "etc/dcm/agent.toml": "[clients]\nunits = [\"a\"]\n"}.Write(t)
	if got := configtest.Complaint(t, p); !strings.Contains(got, "/etc/dcm/agent.toml:1: clients: unknown key") && !strings.Contains(got, "clients") {
		t.Error(got)
	}
}

func TestSelect_AgentHasPrecedence(t *testing.T) {
	p := configtest.Files{"etc/dcm/dcm.toml": letting}.Write(t)
	if _, err := Install(p, twoOf, "fast"); err != nil {
		t.Fatal(err)
	}
	err := Select(p, "all-disabled")
	if err == nil || !strings.Contains(err.Error(), "an agent selected fast") {
		t.Errorf("error %v", err)
	}
	if text, _ := os.ReadFile(p.Admin); string(text) != letting {
		t.Errorf("dcm.toml is %q", text)
	}
	if err := SelectRuntime(p, "all-disabled"); err != nil {
		t.Error(err)
	}
	if c, err := config.Load(p); err != nil || c.Selected != "all-disabled" {
		t.Errorf("until reboot %q is selected, %v", c.Selected, err)
	}
}

func TestSaveLastGood_AgentSelection(t *testing.T) {
	p := configtest.Files{"etc/dcm/dcm.toml": letting}.Write(t)
	if _, err := Install(p, twoOf, "fast"); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(p)
	if err != nil {
		t.Fatal(err)
	}
	if err := SaveLastGood(p, c); err != nil {
		t.Fatal(err)
	}
	kept, err := LastGood(p)
	if err != nil || kept.Selected != "fast" || !kept.Agent {
		t.Errorf("kept is %+v, %v", kept, err)
	}
}

func TestInstall_WritesOnlySelectedProfile(t *testing.T) {
	p := configtest.Files{"etc/dcm/dcm.toml": letting}.Write(t)
	var text strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&text, "[profiles.p%d]\ncompute = \"SPX\"\n", i)
	}
	if _, err := Install(p, text.String(), "p7"); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(p.Agent)
	if err != nil || strings.Count(string(got), "[profiles.") != 1 || !strings.Contains(string(got), "[profiles.p7]") {
		t.Errorf("%v, installed is\n%.500s", err, got)
	}
	c, err := config.Load(p)
	if err != nil || c.Selected != "p7" || len(c.Profiles) != 1 {
		t.Errorf("selected is %q of %d profiles, %v", c.Selected, len(c.Profiles), err)
	}
}

// Whatever an agent sends, there is an answer, and a text that is taken can be read back.
func FuzzPropose(f *testing.F) {
	for _, text := range []string{twoOf, ofAMDs, "", "{", "[", letting, "profile = \"fast\"\n" + twoOf[12:]} {
		f.Add(text, "fast")
	}
	root := f.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "etc/dcm"), 0o755); err != nil {
		f.Fatal(err)
	}
	p := config.DefaultPaths(root)
	if err := os.WriteFile(p.Admin, []byte(letting), 0o644); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text, profile string) {
		proposal, err := Propose(p, text, profile)
		if err == nil && (proposal.Config.Selected != profile || !strings.HasPrefix(proposal.Config.Source, p.Agent)) {
			t.Errorf("%q is selected by %s, not %q", proposal.Config.Selected, proposal.Config.Source, profile)
		}
		var problems *source.Errors
		var kept *config.NotAllowedError
		var none *NoProfileError
		if err != nil && !errors.As(err, &problems) && !errors.As(err, &kept) && !errors.As(err, &none) {
			t.Errorf("%T: %v", err, err)
		}
	})
}
