package desired_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dcm/cmd/dcm-kubernetes/internal/desired"
	"dcm/cmd/dcm-kubernetes/internal/sequence"
	"dcm/cmd/dcm-kubernetes/internal/vendor"
)

const migConfig = `version: v1
mig-configs:
  half:
    - devices: [0, 1]
      mig-enabled: true
      mig-devices: {"3g.40gb": 2, "1g.10gb+me": 1}
    - devices: [2]
      mig-enabled: false
  boards:
    - device-filter: ["0x233010DE", "0x233110DE"]
      devices: all
      mig-enabled: true
      mig-devices: {"7g.80gb": 1}
    - device-filter: "0x20B210DE"
      devices: all
      mig-enabled: false
  empty:
    - {devices: all, mig-enabled: true, mig-devices: {}}
  index:
    - {devices: [-1], mig-enabled: false}
  other:
    - {device-filter: "0x74a11002", devices: all, mig-enabled: false}
  closed:
    - {devices: all, mig-enabled: false, mig-devices: {"1g.10gb": 7}}
`

// readMIG reads a ConfigMap with config.yaml.
func readMIG(t *testing.T, text string) sequence.Config {
	t.Helper()
	dir := t.TempDir()
	if text != "" {
		if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return desired.Dir(dir).Read(vendor.NVIDIA)
}

func TestMIGParted_Texts(t *testing.T) {
	c := readMIG(t, migConfig)
	want := map[string]string{
		"half": `version = 1
[profiles."half"]
[[profiles."half".group]]
mig = { "1g.10gb+me" = 1, "3g.40gb" = 2 }
gpus = [0, 1]
[[profiles."half".group]]
mig = "off"
gpus = [2]
`,
		"boards": `version = 1
[profiles."boards"]
[[profiles."boards".group]]
mig = { "7g.80gb" = 1 }
device = ["0x2330", "0x2331"]
count = "rest"
[[profiles."boards".group]]
mig = "off"
device = ["0x20b2"]
count = "rest"
`,
		"empty": `version = 1
[profiles."empty"]
[[profiles."empty".group]]
mig = {  }
count = "rest"
`,
		"all-balanced": "version = 1\n",
	}
	for name, text := range want {
		if got := c.For(name); got != text {
			t.Errorf("%s is\n%s, want\n%s", name, got, text)
		}
	}
	problems := map[string]string{
		"index":  "config.yaml of the ConfigMap: mig-configs.index: devices: not a GPU index (found -1, want an integer from 0)",
		"other":  "config.yaml of the ConfigMap: mig-configs.other: device-filter: not a device of NVIDIA (found 0x74a11002, want an id such as 0x233010DE)",
		"closed": "config.yaml of the ConfigMap: mig-configs.closed: mig-devices must be empty, since mig-enabled is false",
	}
	for name, text := range problems {
		if got := c.Unusable[name]; got != text {
			t.Errorf("%s: %q, want %q", name, got, text)
		}
	}
	if len(c.Unusable) != len(problems) || c.Problem != nil {
		t.Errorf("unusable: %q, problem %+v", c.Unusable, c.Problem)
	}
}

func TestMIGParted_Broken(t *testing.T) {
	for text, want := range map[string]string{
		"version: v1\nmig-configs: {": "config.yaml of the ConfigMap is not valid",
		"mig-configs: {}":             `version not supported (found "", want "v1")`,
	} {
		if c := readMIG(t, text); c.Problem == nil || c.Problem.Reason != sequence.InvalidProfile || !strings.Contains(c.Problem.Message, want) {
			t.Errorf("problem is %+v, want %q", c.Problem, want)
		}
	}
}

func TestMIGParted_NoConfigMap(t *testing.T) {
	if c := readMIG(t, ""); c.Problem != nil || c.For("all-balanced") != "version = 1\n" || c.Hash == "" {
		t.Errorf("read %+v", c)
	}
}
