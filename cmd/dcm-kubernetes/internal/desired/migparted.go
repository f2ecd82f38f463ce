package desired

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"dcm/cmd/dcm-kubernetes/internal/sequence"
	"dcm/cmd/dcm-kubernetes/internal/vendor"
)

// entry is an entry of a configuration of mig-parted.
type entry struct {
	Devices any            `json:"devices"`       // "all" or indices
	Filter  any            `json:"device-filter"` // PCI ids, one or several
	Enabled bool           `json:"mig-enabled"`
	Counts  map[string]int `json:"mig-devices"`
}

// migParted converts the profiles of mig-parted's config.yaml to dcm's format, each to its own text. An
// error in one profile does not concern the others. dcm checks them.
func migParted(text []byte) sequence.Config {
	var file struct {
		Version string             `json:"version"`
		Configs map[string][]entry `json:"mig-configs"`
	}
	key := vendor.NVIDIA.ConfigKey
	switch err := yaml.Unmarshal(text, &file); {
	case err != nil:
		return problem(sequence.InvalidProfile, key+" of the ConfigMap is not valid: "+strings.Join(strings.Fields(err.Error()), " "))
	case file.Version != "v1":
		return problem(sequence.InvalidProfile, fmt.Sprintf("%s of the ConfigMap: version not supported (found %q, want \"v1\")", key, file.Version))
	}
	c := config(text)
	c.Text = generated
	c.Texts, c.Unusable, c.Layouts = make(map[string]string), make(map[string]string), make(map[string][]sequence.MIGGroup)
	for name, entries := range file.Configs {
		text, err := profile(name, entries)
		if err != nil {
			c.Unusable[name] = fmt.Sprintf("%s of the ConfigMap: mig-configs.%s: %v", key, name, err)
			continue
		}
		c.Texts[name] = text
		for _, e := range entries {
			c.Layouts[name] = append(c.Layouts[name], sequence.MIGGroup{Enabled: e.Enabled, Counts: e.Counts})
		}
	}
	return c
}

// profile returns the entries as the only profile of a text.
func profile(name string, entries []entry) (string, error) {
	var out strings.Builder
	fmt.Fprintf(&out, "%s[profiles.%s]\n", generated, strconv.Quote(name))
	for _, e := range entries {
		group, err := e.group()
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&out, "[[profiles.%s.group]]\n%s", strconv.Quote(name), group)
	}
	return out.String(), nil
}

// group returns the entry as a group of a profile.
func (e entry) group() (string, error) {
	mig := `"off"`
	if e.Enabled {
		var counts []string
		for _, profile := range slices.Sorted(maps.Keys(e.Counts)) {
			counts = append(counts, fmt.Sprintf("%s = %d", strconv.Quote(profile), e.Counts[profile]))
		}
		mig = "{ " + strings.Join(counts, ", ") + " }"
	} else if len(e.Counts) > 0 {
		return "", fmt.Errorf("mig-devices must be empty, since mig-enabled is false")
	}
	out := "mig = " + mig + "\n"
	filter, err := devices(e.Filter)
	if err != nil {
		return "", err
	}
	if len(filter) > 0 {
		out += "device = [" + strings.Join(filter, ", ") + "]\n"
	}
	switch at := e.Devices.(type) {
	case string:
		if at == "all" {
			return out + "count = \"rest\"\n", nil
		}
	case []any:
		var indices []string
		for _, i := range at {
			n, ok := i.(float64)
			if !ok || n < 0 || n != float64(int(n)) {
				return "", fmt.Errorf("devices: not a GPU index (found %v, want an integer from 0)", i)
			}
			indices = append(indices, strconv.Itoa(int(n)))
		}
		return out + "gpus = [" + strings.Join(indices, ", ") + "]\n", nil
	}
	return "", fmt.Errorf("devices: names no GPUs (found %v, want \"all\" or indices such as [0, 1])", e.Devices)
}

// devices returns PCI device ids as dcm writes them. mig-parted's ids are followed by the vendor's:
// 0x233010DE.
func devices(filter any) ([]string, error) {
	var out []string
	list, ok := filter.([]any)
	if !ok && filter != nil {
		list = []any{filter}
	}
	for _, f := range list {
		id, _ := f.(string)
		n, err := strconv.ParseUint(id, 0, 32)
		if err != nil || n&0xffff != 0x10de {
			return nil, fmt.Errorf("device-filter: not a device of NVIDIA (found %v, want an id such as 0x233010DE)", f)
		}
		out = append(out, fmt.Sprintf("%q", fmt.Sprintf("%#04x", n>>16)))
	}
	return out, nil
}
