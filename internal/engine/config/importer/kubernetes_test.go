package importer

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/config"
	"dcm/internal/engine/config/configtest"
	"dcm/internal/engine/config/source"
	"dcm/internal/gpu/partition"
)

func TestImport_OperatorConfiguration(t *testing.T) {
	got, warnings, err := Import("config.json", []byte(configtest.Operators), 8)
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	want := `# Imported from the Kubernetes form, which selects a profile by a label of the
# node, dcm.amd.com/gpu-config-profile. To select one here:
#   dcm use cpx-profile
#   dcm use spx-profile

version = 1

[clients]
units = ["amd-metrics-exporter.service", "gpuagent.service"]

[profiles.cpx-profile]
compute = "CPX"
memory = "NPS4"

[profiles.spx-profile]
compute = "SPX"
memory = "NPS1"
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("dcm.toml (-want +got):\n%s", diff)
	}
}

const mixed = `{
  "gpu-config-profiles": {
    "odd name": {
      "skippedGPUs": {"ids": [0, 7]},
      "profiles": [
        {"computePartition": "CPX", "memoryPartition": "NPS1", "numGPUsAssigned": 2},
        {"computePartition": "SPX", "memoryPartition": "NPS1", "numGPUsAssigned": 4}
      ]
    },
    "part": {
      "skippedGPUs": {"ids": [3]},
      "profiles": [{"computePartition": "QPX", "memoryPartition": "NPS4", "numGPUsAssigned": 7}]
    }
  }
}`

// meaning loads an imported text as dcm.toml.
func meaning(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := loadText("dcm.toml", text)
	configtest.Must(t, err)
	return c
}

func TestImport_LoadsBackUnchanged(t *testing.T) {
	text, warnings, err := Import("config.json", []byte(mixed), 8)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]partition.Profile{
		"odd name": {
			Name: "odd name", Memory: partition.NPS1, Skip: []partition.Selector{{Index: 0}, {Index: 7}},
			Groups: []partition.Group{{Compute: partition.CPX, Count: 2}, {Compute: partition.SPX, Count: 4}},
		},
		"part": {
			Name: "part", Memory: partition.NPS4, Skip: []partition.Selector{{Index: 3}},
			Groups: []partition.Group{{Compute: partition.QPX, Count: 7}},
		},
	}
	if diff := cmp.Diff(want, meaning(t, text).Profiles); diff != "" {
		t.Errorf("profiles (-want +got):\n%s", diff)
	}
	if !strings.Contains(text, "\n#   dcm use 'odd name'\n#   dcm use part\n") {
		t.Errorf("the commands to give are not as a shell wants them:\n%s", text)
	}
	if len(warnings) != 2 || !strings.HasPrefix(warnings[0], `config.json:4: gpu-config-profiles."odd name".skippedGPUs.ids: indices`) {
		t.Errorf("warnings: %q", warnings)
	}
}

// indented is text as a literal block of YAML.
func indented(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    ") + "\n"
}

const mapHead = "# ours\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: config-manager-config\ndata:\n"

func TestImport_ConfigMap(t *testing.T) {
	want, _, err := Import("f", []byte(configtest.Operators), 0)
	if err != nil {
		t.Fatal(err)
	}
	quoted := source.Quote(configtest.Operators)
	for name, text := range map[string]string{
		"YAML":              mapHead + "  config.json: |\n" + indented(configtest.Operators),
		"YAML, chomped":     "---\n" + mapHead + "  \"config.json\": |-\n" + indented(configtest.Operators) + "---\n# nothing more\n",
		"YAML, quoted":      mapHead + "  config.json: " + quoted + "\n",
		"YAML, folded":      mapHead + "  config.json: >\n" + indented(configtest.Operators),
		"JSON":              `{"kind": "ConfigMap", "data": {"config.json": ` + quoted + `}}`,
		"byte order mark":   "\ufeff" + configtest.Operators,
		"with spaces ahead": "\n  " + configtest.Operators,
	} {
		got, warnings, err := Import("f", []byte(text), 0)
		if err != nil || len(warnings) > 0 {
			t.Errorf("%s: %v %v", name, err, warnings)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestImport_BadFiles(t *testing.T) {
	one := func(compute, memory, n string) string {
		return `{"computePartition": "` + compute + `", "memoryPartition": "` + memory + `", "numGPUsAssigned": ` + n + "}"
	}
	doc := func(inner string) string { return "{\"gpu-config-profiles\": {\"a\": {\n" + inner + "\n}}}" }
	for _, test := range []struct{ name, text, want string }{
		{"too few", doc(`"skippedGPUs": {"ids": [0]}, "profiles": [` + one("CPX", "NPS4", "6") + `]`),
			`f:1: gpu-config-profiles.a: GPUs do not add up (found 6 assigned and 1 skipped, together 7, want 8)`},
		{"too many", doc(`"profiles": [` + one("CPX", "NPS4", "16") + `]`),
			`f:1: gpu-config-profiles.a: GPUs do not add up (found 16 assigned and 0 skipped, together 16, want 8)`},
		{"two memory modes", doc(`"profiles": [` + one("CPX", "NPS4", "4") + ",\n" + one("SPX", "NPS1", "4") + `]`),
			`f:3: gpu-config-profiles.a.profiles.memoryPartition = "NPS1": a profile has one memory mode (found another one on line 2: NPS4)`},
		{"skipped out of range", doc(`"skippedGPUs": {"ids": [8, -1, "0", 1, 1]}, "profiles": [` + one("CPX", "NPS4", "6") + `]`),
			`f:2: gpu-config-profiles.a.skippedGPUs.ids = 8: no such GPU: this node has 8; accepted: 0 to 7
f:2: gpu-config-profiles.a.skippedGPUs.ids = -1: no such GPU: this node has 8; accepted: 0 to 7
f:2: gpu-config-profiles.a.skippedGPUs.ids = "0": must be an index, not a string
f:2: gpu-config-profiles.a.skippedGPUs.ids = 1: GPU 1 is listed twice, first on line 2; accepted: each GPU once`},
		{"unknown keys", "{\"gpu-config-profile\": {}, \"gpu-config-profiles\": {\"a\": {\"skippedGPU\": {\"ids\": []},\n\"profiles\": [{\"computePartion\": \"CPX\", \"memoryPartition\": \"NPS1\", \"numGPUsAssigned\": 8}]}}}",
			`f:1: gpu-config-profile: unknown key; did you mean "gpu-config-profiles"? accepted: gpu-config-profiles, gpuClientSystemdServices
f:1: gpu-config-profiles.a.skippedGPU: unknown key; did you mean "skippedGPUs"? accepted: profiles, skippedGPUs
f:2: gpu-config-profiles.a.profiles.computePartion = "CPX": unknown key; did you mean "computePartition"? accepted: computePartition, memoryPartition, numGPUsAssigned
f:2: gpu-config-profiles.a.profiles.computePartition: is missing`},
		{"modes and counts", doc(`"profiles": [` + one("cpx", "NPS3", "-1") + ",\n" + one("CPX", "NPS1", "1.5") + ",\n{}]"),
			`f:2: gpu-config-profiles.a.profiles.computePartition = "cpx": not a compute partition mode; did you mean "CPX"? accepted: SPX, DPX, TPX, QPX, CPX
f:2: gpu-config-profiles.a.profiles.memoryPartition = "NPS3": not a memory partition mode; accepted: NPS1, NPS2, NPS4, NPS8
f:2: gpu-config-profiles.a.profiles.numGPUsAssigned = -1: not a number of GPUs; accepted: an integer from 1; 0 or no key for all remaining GPUs
f:3: gpu-config-profiles.a.profiles.numGPUsAssigned = 1.5: must be an integer, not a number with a fraction
f:4: gpu-config-profiles.a.profiles.computePartition: is missing
f:4: gpu-config-profiles.a.profiles.memoryPartition: is missing`},
		{"two that take what is left", doc(`"profiles": [` + one("CPX", "NPS1", "0") + ",\n" + `{"computePartition": "SPX", "memoryPartition": "NPS1"}]`),
			`f:3: gpu-config-profiles.a.profiles: the remaining GPUs are already taken by the entry without numGPUsAssigned on line 2`},
		{"too many, and one that takes the rest", doc(`"profiles": [` + one("CPX", "NPS1", "9") + ",\n" + one("SPX", "NPS1", "0") + `]`),
			`f:1: gpu-config-profiles.a: GPUs do not add up (found 9 assigned and 0 skipped, together 9, want 8)`},
		{"units", "{\"gpu-config-profiles\": {},\n\"gpuClientSystemdServices\": {\"names\": [\"../x\",\nnull]}}",
			`f:2: gpuClientSystemdServices.names = "../x": not a unit name: '/' cannot be in one; accepted: letters, digits and :-_.\@ (systemd-escape --mangle writes the rest)
f:3: gpuClientSystemdServices.names: must be a string, not null`},
		{"nothing in it", "{}", `f:1: gpu-config-profiles: is missing`},
		{"no entries", doc(`"profiles": []`), `f:2: gpu-config-profiles.a.profiles: the list is empty`},
		{"key given twice", "{\"gpu-config-profiles\": {\"a\": 1,\n\"a\": 2}}", `f:2: "a" is given twice, first on line 1`},
		{"not JSON", "{\"gpu-config-profiles\": {\n},\n}", `f:3: not JSON: invalid character '}' looking for beginning of object key string`},
		{"cut off", "{\"gpu-config-profiles\":\n", `f:1: not JSON: unexpected end of JSON input`},
		{"an array", "[]", `f:1: kind: neither a config.json nor a ConfigMap; accepted: kind "ConfigMap" with the key config.json in data`},
		{"empty", "", `f:1: kind: neither a config.json nor a ConfigMap; accepted: kind "ConfigMap" with the key config.json in data`},
		{"another kind", "kind: Secret\ndata:\n  config.json: e30=\n", `f:1: kind: neither a config.json nor a ConfigMap; accepted: kind "ConfigMap" with the key config.json in data`},
		{"another key in the map", mapHead + "  config.jsn: |\n    {}\n", `f:6: data: the ConfigMap has no config.json; did you mean "config.jsn"? accepted: config.json`},
		{"map that holds no text", mapHead + "  config.json: 3\n", `f:7: data."config.json": must be a string that holds JSON, not an integer`},
		{"not YAML", "kind: ConfigMap\ndata:\n  config.json: |\n  {\n", `f:4: not YAML: could not find expected ':'`},
		{"two maps", mapHead + "  config.json: |\n    {}\n---\nkind: ConfigMap\n", `f:10: a second YAML document; accepted: one`},
		{"lines of a literal block", mapHead + "  config.json: |\n" + indented(doc(`"profiles": [`+one("CPX", "NPS4", "9")+`]`)),
			`f:8: gpu-config-profiles.a: GPUs do not add up (found 9 assigned and 0 skipped, together 9, want 8)`},
		{"line of a quoted document", mapHead + "  config.json: " + source.Quote("{\n\n}") + "\n", `f:7: gpu-config-profiles: is missing`},
		{"not text", "{\n\xff}", `f:2: not UTF-8 text`},
	} {
		t.Run(test.name, func(t *testing.T) {
			text, _, err := Import("f", []byte(test.text), 8)
			var all *source.Errors
			if !errors.As(err, &all) {
				t.Fatalf("got %v and\n%s", err, text)
			}
			if diff := cmp.Diff(test.want, err.Error()); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestImport_UnknownGPUCount(t *testing.T) {
	text := strings.ReplaceAll(configtest.Operators, "8}", "3}")
	if _, _, err := Import("f", []byte(text), 0); err != nil {
		t.Error(err)
	}
}

func TestImport_RemainingGPUs(t *testing.T) {
	for gpus, names := range map[int]int{0: 4, 8: 3} {
		text, warnings, err := Import("f", []byte(configtest.Fleet), gpus)
		if err != nil {
			t.Fatal(err)
		}
		got := meaning(t, text).Profiles
		if len(got) != names {
			t.Errorf("with %d GPUs there are %d profiles: %v", gpus, len(got), got)
		}
		delete(got, "sixteen")
		want := map[string]partition.Profile{
			"all":   {Name: "all", Compute: partition.QPX, Memory: "NPS8"},
			"mixed": {Name: "mixed", Memory: partition.NPS1, Groups: []partition.Group{{Compute: partition.CPX, Count: 2}, {Compute: partition.SPX, Rest: true}}},
			"first": {Name: "first", Memory: partition.NPS1, Skip: []partition.Selector{{Index: 3}}, Groups: []partition.Group{{Compute: partition.CPX, Rest: true}, {Compute: partition.SPX, Count: 4}}},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("with %d GPUs (-want +got):\n%s", gpus, diff)
		}
		warned := strings.Join(warnings, "\n")
		for _, want := range []string{
			`f:5: profile "odd" cannot be selected: gpu-config-profiles.odd.profiles.computePartition = "FPX": not a compute partition mode; accepted: SPX, DPX, TPX, QPX, CPX (and 2 more)`,
			`f:7: profile "none" cannot be selected: gpu-config-profiles.none: reserved name: it selects no profile`,
		} {
			if !strings.Contains(warned, want) {
				t.Errorf("the warnings are without %s:\n%s", want, warned)
			}
		}
		if gpus == 8 && !strings.Contains(warned, `profile "sixteen" cannot be selected`) || !strings.Contains(text, "\n# Left out, since it cannot be selected: \"odd\"\n") {
			t.Errorf("warnings:\n%s\nof\n%s", warned, text)
		}
	}
}
