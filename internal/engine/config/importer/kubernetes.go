package importer

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"dcm/internal/engine/config"
	"dcm/internal/engine/config/rule"
	"dcm/internal/engine/config/source"
)

// Import converts the Kubernetes form to the text of a dcm.toml. The text is a config.json, or a
// ConfigMap in YAML or JSON that contains one. file is the name in messages. gpus is the number of GPUs
// of the node, against which the profiles are checked; 0 if unknown. A profile with errors is left out
// with a warning, unless all have errors.
//
// No profile is selected, since that form selects by a label of the node. The error is a
// [*source.Errors].
func Import(file string, text []byte, gpus int) (toml string, warnings []string, err error) {
	if p := source.CheckText(file, text); p != nil {
		return "", nil, source.NewErrors(*p)
	}
	c := new(rule.Checker)
	cfg, err := config.LoadKubernetes(c, file, string(text), gpus, parseYAML)
	if err != nil {
		return "", nil, err
	}
	return imported(cfg) + config.Format(cfg), c.Warnings, nil
}

// imported returns the head of an imported file, with the commands that select a profile. The file
// selects none: as a drop-in it would override dcm.toml and `dcm use`.
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

// shellWord quotes a name for a shell.
func shellWord(name string) string {
	const bare = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/@%+,"
	if strings.Trim(name, bare) == "" {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}
