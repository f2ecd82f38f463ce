package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/config/configtest"
	"dcm/internal/engine/config/rule"
)

func TestUnits_Suffix(t *testing.T) {
	for name, want := range map[string]string{
		"gpuagent":               "gpuagent.service",
		"gpuagent.service":       "gpuagent.service",
		"vllm@":                  "vllm@.service",
		"vllm@.service":          "vllm@.service",
		"vllm@llama-3.1":         "vllm@llama-3.1.service",
		"a@b@c":                  "a@b@c.service",
		"gpu.socket":             "gpu.socket",
		"gpus.target":            "gpus.target",
		"gpu.timer":              "gpu.timer",
		"gpu.path":               "gpu.path",
		"python3.11":             "python3.11.service",
		`dev-dri\x2drender`:      `dev-dri\x2drender.service`,
		"a:b_c":                  "a:b_c.service",
		strings.Repeat("a", 247): strings.Repeat("a", 247) + ".service",
	} {
		got, f := rule.ParseUnit(name)
		if f != nil || got != want {
			t.Errorf("%q became %q (%v), want %q", name, got, f, want)
		}
	}
}

func TestUnits_BadNames(t *testing.T) {
	for name, want := range map[string]string{
		"":                       "not a unit name: it is empty",
		".service":               "not a unit name: it is empty",
		"../etc/passwd":          "not a unit name: '/' cannot be in one",
		"a/b.service":            "not a unit name: '/' cannot be in one",
		"a\nb":                   "not a unit name: '\\n' cannot be in one",
		"a b":                    "not a unit name: ' ' cannot be in one",
		"a\x00":                  "not a unit name: '\\x00' cannot be in one",
		"käfer":                  "not a unit name: 'ä' cannot be in one",
		"vllm-":                  "a drop-in for it would apply to all units with this prefix",
		"vllm-@a":                "a drop-in for it would apply to all units with this prefix",
		"%i":                     "not a unit name: '%' cannot be in one",
		"@x":                     "not a unit name: empty before the @",
		strings.Repeat("a", 248): "not a unit name: too long (found 256 bytes, want at most 255)",
		"gpuagent.sevice":        `not a unit suffix of systemd; did you mean "gpuagent.service"?`,
		"home.mount":             "a .mount unit cannot be a client",
		"user.slice":             "a .slice unit cannot be a client",
		"dcm":                    "dcm's own unit cannot be its client",
		"dcm-apply.service":      "dcm's own unit cannot be its client",
		"dcm-guard":              "dcm's own unit cannot be its client",
		"dcm-reserve.service":    "dcm's own unit cannot be its client",
		"nvidia-persistenced":    "dcm-apply.service starts after it, but clients must start after dcm-apply.service",
		"sockets.target":         "dcm-apply.service starts after it, but clients must start after dcm-apply.service",
		"systemd-udevd":          "dcm-apply.service starts after it, but clients must start after dcm-apply.service",
		"basic.target":           "dcm-apply.service starts after it, but clients must start after dcm-apply.service",
	} {
		got, f := rule.ParseUnit(name)
		if f == nil || !strings.HasPrefix(f.String(), want) {
			t.Errorf("%q became %q (%v), want: %s", name, got, f, want)
		}
	}
}

func TestUnits_Repeated(t *testing.T) {
	c := configtest.Load(t, configtest.Files{"etc/dcm/dcm.toml": "[clients]\nunits = [\n \"b\",\n \"a\",\n \"b.service\",\n]\n"})
	if diff := cmp.Diff([]string{"b.service", "a.service"}, c.Clients); diff != "" {
		t.Errorf("clients (-want +got):\n%s", diff)
	}
	want := []string{"/etc/dcm/dcm.toml:5: clients.units: b.service is listed twice, first on line 3"}
	if diff := cmp.Diff(want, c.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}
