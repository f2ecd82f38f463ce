package importer

import (
	_ "embed"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/config"
	"dcm/internal/engine/config/source"
	"dcm/internal/gpu/partition"
)

//go:embed testdata/mig-parted.yaml
var migPartedsOwn string

// hooksFile and hooksScript are of the form of those of mig-parted's service.
const (
	hooksFile = `version: v1
hooks:
  apply-start:
    - workdir: "/etc/nvidia-mig-manager"
      command: "/bin/bash"
      args: ["-c", "source hooks.sh; apply-start ${MIG_PARTED_SELECTED_CONFIG}"]
  pre-apply-mode:
    - command: "/bin/bash"
      args: ["-c", "source hooks.sh; pre-apply-mode"]
    - command: systemctl
      args: ["--no-block", "stop", "my-exporter", "nvidia-persistenced.service"]
  apply-exit:
    - command: /usr/local/bin/notify
      args: [done]
`
	hooksScript = "#!/bin/bash\ndriver_services=(\n\tnvidia-dcgm.service # metrics\n)\nk8s_services=(\n\tkubelet.service\n\tdcgm-exporter.service\n)\n"
	override    = "[Service]\nEnvironment=\"MIG_PARTED_SELECTED_CONFIG=all-balanced\"\n"
)

func texts(all ...string) []File {
	var files []File
	for i := 0; i < len(all); i += 2 {
		files = append(files, File{Name: all[i], Text: []byte(all[i+1])})
	}
	return files
}

// importing reads back what was imported.
func importing(t *testing.T, files []File) (*config.Config, []string) {
	t.Helper()
	out, warnings, err := ImportFiles(files, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := loadText("out", out)
	if err != nil {
		t.Fatalf("%v\nin what was imported:\n%s", err, out)
	}
	return c, warnings
}

// Every profile that mig-parted brings along is planned on every board that has it, and
// is the same as the one of that name which needs no definition.
func TestImportFiles_MIGPartedProfiles(t *testing.T) {
	c, _ := importing(t, texts("config.yaml", migPartedsOwn))
	if len(c.Profiles) != 81 {
		t.Errorf("%d profiles are imported", len(c.Profiles))
	}
	planned := make(map[string]bool)
	notInIt := []string{"A100-64GB", "RTX-PRO-4500", "RTX-PRO-5000"}
	for _, board := range partition.Boards() {
		if slices.Contains(notInIt, board.Name) {
			continue
		}
		gpus := partition.TypicalMIG(board, 2)
		suit := partition.PredefinedNames(gpus)
		for name, p := range c.Profiles {
			shapes, err := plan(p, gpus)
			if fits := slices.Contains(suit, name); (err == nil) != fits {
				t.Errorf("%s on %s: %v, but that it suits is %v", name, board.Name, err, fits)
			} else if fits {
				planned[name] = true
				common, _ := partition.Predefined(name)
				want, err := plan(common, gpus)
				if diff := cmp.Diff(want, shapes); diff != "" || err != nil {
					t.Errorf("%s on %s is another than dcm's own: %v\n%s", name, board.Name, err, diff)
				}
			}
		}
	}
	var never []string
	for name := range c.Profiles {
		if !planned[name] {
			never = append(never, name)
		}
	}
	slices.Sort(never) // those of a GB200 with three gigabytes more
	if want := []string{"all-3g.95gb", "all-4g.95gb", "all-7g.189gb"}; !slices.Equal(never, want) {
		t.Errorf("on no board there are planned %v", never)
	}
}

// plan is how the GPUs would be divided.
func plan(p partition.Profile, gpus []partition.GPU) ([]string, error) {
	layout, err := p.Layout(gpus)
	if err != nil {
		return nil, err
	}
	steps, err := partition.Plan(layout, gpus)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, g := range partition.Forecast(gpus, steps) {
		out = append(out, g.Shape().Key())
	}
	return out, nil
}

func TestImportFiles_MIGPartedService(t *testing.T) {
	c, warnings := importing(t, texts("override.conf", override, "hooks.yaml", hooksFile, "config.yaml", migPartedsOwn, "hooks.sh", hooksScript))
	if c.Selected != "all-balanced" || !slices.Equal(c.Clients, []string{"my-exporter.service", "nvidia-dcgm.service", "dcgm-exporter.service"}) {
		t.Errorf("selected is %q, clients are %v", c.Selected, c.Clients)
	}
	want := []string{
		"hooks.yaml:10: nvidia-persistenced.service is not made a client: dcm works while it runs",
		`hooks.yaml:13: the hook apply-exit is not imported: it runs "/usr/local/bin/notify done"; units that have a GPU open belong in [clients]`,
		"hooks.sh:6: kubelet.service is not made a client: it has no GPU open, and a stop of it stops no process that has one open",
	}
	slices.Sort(warnings)
	slices.Sort(want)
	if diff := cmp.Diff(want, warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	if _, warnings := importing(t, texts("config.yaml", migPartedsOwn, "hooks.yaml", hooksFile)); !slices.Contains(warnings, "hooks.yaml:8: the hook pre-apply-mode runs hooks.sh, which names units. hint: import that file, too") {
		t.Errorf("without the script: %q", warnings)
	}
}

func TestImportFiles_MIGPartedEntries(t *testing.T) {
	const text = `version: v1
mig-configs:
  custom:
    - devices: [0, 1]
      mig-enabled: false
    - devices: [2]
      mig-enabled: true
      mig-devices:
        "1c.3g.20gb": 3
        "2g.10gb": 1
    - device-filter: "0x20B210DE:0x153310DE"
      devices: [3, 3]
      mig-enabled: true
      mig-devices: {}
`
	c, warnings := importing(t, texts("config.yaml", text))
	m, _ := partition.NewMIG(map[string]int{"1c.3g.20gb": 3, "2g.10gb": 1})
	want := partition.Profile{Name: "custom", Groups: []partition.Group{
		{MIG: &partition.MIG{Off: true}, GPUs: []partition.Selector{{Index: 0}, {Index: 1}}},
		{MIG: &m, GPUs: []partition.Selector{{Index: 2}}},
		{MIG: &partition.MIG{}, GPUs: []partition.Selector{{Index: 3}}, Devices: []partition.Filter{{Device: 0x20b2, SubDevice: 0x1533, SubVendor: 0x10de}}},
	}}
	if diff := cmp.Diff(want, c.Profiles["custom"]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if want := []string{"config.yaml:12: mig-configs.custom.devices lists a GPU twice", "config.yaml:2: " + aboutIndices}; !slices.Equal(warnings, want) {
		t.Errorf("warnings %q", warnings)
	}
}

func TestImportFiles_BadMIGPartedFiles(t *testing.T) {
	const head = "version: v1\nmig-configs:\n  a:\n"
	for _, tt := range []struct{ name, text, want string }{
		{"another version", "version: v2\nmig-configs: {}", `f:1: version = "v2": version not supported; accepted: v1`},
		{"no version", "mig-configs: {}", "f:1: version: is missing"},
		{"overlapping entries", head + "    - devices: all\n      mig-enabled: false\n    - devices: [1]\n      mig-enabled: true\n      mig-devices: {}",
			"f:6: mig-configs.a: has GPUs of the entry on line 4; in dcm a GPU is in one group"},
		{"a profile that is none", head + "    - devices: all\n      mig-enabled: true\n      mig-devices:\n        \"1g\": 7\n",
			`f:7: mig-configs.a.mig-devices.1g = 7: not a MIG profile; accepted: names such as 1g.10gb, 1c.3g.40gb or 1g.10gb+me; dcm check lists those of a GPU`},
		{"no instances named", head + "    - devices: all\n      mig-enabled: true\n    - devices: [1]\n      mig-enabled: true\n      mig-devices:\n",
			"f:4: mig-configs.a: mig-devices is missing, and mig-enabled is true; accepted: mig-devices: {} for no instance\n" +
				"f:6: mig-configs.a: mig-devices is missing, and mig-enabled is true; accepted: mig-devices: {} for no instance"},
		{"a filter without quotes", head + "    - device-filter: 0x233010DE\n      devices: all\n      mig-enabled: false\n",
			`f:4: mig-configs.a.device-filter = 590352606: must be a string or an array of strings, not an integer; accepted: a PCI device id such as "0x2330", or a device and a board id such as "0x20b2:0x1533"`},
		{"instances with MIG off", head + "    - devices: all\n      mig-enabled: false\n      mig-devices: {\"1g.5gb\": 7}\n",
			"f:6: mig-configs.a.mig-devices: must be empty, since mig-enabled is false"},
		{"a word for all", head + "    - devices: al\n      mig-enabled: false\n",
			`f:4: mig-configs.a.devices = "al": names no GPUs; accepted: "all", or an array of indices such as [0, 1]`},
		{"another key", head + "    - devices: all\n      mig-enable: false\n",
			`f:5: mig-configs.a.mig-enable = false: unknown key; did you mean "mig-enabled"? accepted: device-filter, devices, mig-devices, mig-enabled` + "\nf:4: mig-configs.a.mig-enabled: is missing"},
		{"no YAML", "mig-configs: {\n", "f:1: not YAML: did not find expected node content"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := ImportFiles(texts("f", tt.text), 0, nil)
			var all *source.Errors
			if !errors.As(err, &all) || !sameLines(err.Error(), tt.want) {
				t.Errorf("%v\nwant %s", err, tt.want)
			}
		})
	}
	for _, tt := range []struct{ name, override, want string }{
		{"a selection that there is not", "Environment=MIG_PARTED_SELECTED_CONFIG=all-balnced", `o:1: MIG_PARTED_SELECTED_CONFIG = "all-balnced": no such profile; did you mean "all-balanced"?`},
		{"two of them", "Environment=A=1 MIG_PARTED_SELECTED_CONFIG=x\nEnvironment=MIG_PARTED_SELECTED_CONFIG=y", `o:2: MIG_PARTED_SELECTED_CONFIG = "y": no such`},
	} {
		if _, _, err := ImportFiles(texts("f", migPartedsOwn, "o", tt.override), 0, nil); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if _, _, err := ImportFiles(texts("a", migPartedsOwn, "b", migPartedsOwn), 0, nil); err == nil || !strings.Contains(err.Error(), "do not fit together") {
		t.Errorf("two configurations: %v", err)
	}
}

// sameLines compares without regard to order.
func sameLines(a, b string) bool {
	return slices.Equal(slices.Sorted(strings.SplitSeq(a, "\n")), slices.Sorted(strings.SplitSeq(b, "\n")))
}

func FuzzImportMIGParted(f *testing.F) {
	f.Add(migPartedsOwn[:1500], hooksFile, override)
	f.Add("version: v1\nmig-configs:\n  a:\n  - devices: [0]\n    mig-enabled: true\n    mig-devices: {\"1c.3g.20gb\": 2}\n", hooksScript, override)
	f.Add("{\"version\": \"v1\", \"mig-configs\": {\"a\": [{\"devices\": \"all\", \"mig-enabled\": true, \"mig-devices\": null}]}}", "services=(a b)", "Environment=MIG_PARTED_SELECTED_CONFIG=a")
	f.Fuzz(func(t *testing.T, text, hooks, selection string) {
		out, _, err := ImportFiles(texts("f", text, "h", hooks, "s", selection), 0, nil)
		if err != nil {
			return
		}
		if _, err := loadText("out", out); err != nil {
			t.Fatalf("%v\nin what was imported:\n%s", err, out)
		}
	})
}

// On the host the indices of all its NVIDIA GPUs become addresses. The fourth one is a
// display's, without MIG.
func TestImportFiles_IndicesBecomeAddresses(t *testing.T) {
	const text = `version: v1
mig-configs:
  some:
    - device-filter: "0x20B210DE"
      devices: [0, 3]
      mig-enabled: true
      mig-devices:
        "1g.10gb": 7
    - device-filter: "0x20B210DE"
      devices: [4, 7]
      mig-enabled: false
    - device-filter: "0x1FB010DE"
      devices: [3]
      mig-enabled: false
  display:
    - devices: [3]
      mig-enabled: false
`
	board, _ := partition.LookupBoard("A100-80GB")
	here := partition.TypicalMIG(board, 5)
	here[3].MIG, here[3].Device = nil, 0x1fb0
	out, warnings, err := ImportFiles(texts("f", text), 0, here)
	if err != nil || !slices.Equal(warnings, []string{"f:2: " + aboutIndices}) { // of those that are not here
		t.Fatalf("%v, warnings %q", err, warnings)
	}
	c, err := loadText("out", out)
	if err != nil {
		t.Fatal(err)
	}
	seven, _ := partition.NewMIG(map[string]int{"1g.10gb": 7})
	a100 := []partition.Filter{{Device: 0x20b2}}
	at := func(i int) partition.Selector { return partition.Selector{Address: here[i].Address} }
	want := map[string]partition.Profile{
		"some": {Name: "some", Groups: []partition.Group{
			{MIG: &seven, Devices: a100, GPUs: []partition.Selector{at(0)}},
			{MIG: &partition.MIG{Off: true}, Devices: a100, GPUs: []partition.Selector{at(4), {Index: 7}}},
		}},
		"display": {Name: "display", Groups: []partition.Group{{MIG: &partition.MIG{Off: true}, GPUs: []partition.Selector{{Index: 3}}}}},
	}
	if diff := cmp.Diff(want, c.Profiles); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
