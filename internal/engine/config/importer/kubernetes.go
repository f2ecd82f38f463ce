package importer

import (
	"dcm/internal/engine/config"
	"dcm/internal/engine/config/rule"
	"dcm/internal/engine/config/source"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Import turns the Kubernetes form, a config.json or the ConfigMap in YAML or
// JSON that holds one, into the text of a dcm.toml. file is for messages only.
// gpus is the number of GPUs of the node that the profiles are meant for, which
// they are then checked against; 0 if it is not known. A profile that cannot be had is
// left out with a warning, unless there is no other.
//
// No profile is selected: that form leaves it to a label of the node. The error
// is an [*Errors]; the warnings are for a human.
func Import(file string, text []byte, gpus int, yaml source.YAML) (toml string, warnings []string, err error) {
	if p := source.CheckText(file, text); p != nil {
		return "", nil, source.NewErrors(*p)
	}
	c := new(rule.Checker)
	cfg, err := config.LoadKubernetes(c, file, string(text), gpus, yaml)
	if err != nil {
		return "", nil, err
	}
	return imported(cfg) + config.Format(cfg), c.Warnings, nil
}

// imported is the head of an imported file: the one command left to give. The selection
// is not written into the file: it would be a drop-in mostly, which an edit of dcm.toml
// and `dcm use` could not change.
func imported(c *config.Config) string {
	var b strings.Builder
	b.WriteString("# Imported from the Kubernetes form, which selects a profile by a label of the\n" +
		"# node, dcm.amd.com/gpu-config-profile. To select one here:\n")
	for _, name := range c.Names() {
		fmt.Fprintf(&b, "#   dcm use %s\n", shellWord(name))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Unusable)) {
		fmt.Fprintf(&b, "# Left out, since it cannot be selected: %s\n", source.QuoteShort(name))
	}
	b.WriteByte('\n')
	return b.String()
}

// shellWord writes a name as a shell reads one word.
func shellWord(name string) string {
	const bare = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/@%+,"
	if strings.Trim(name, bare) == "" {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}
