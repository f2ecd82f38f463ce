package examples

import (
	"path"
	"regexp"
	"strings"
)

// Nodes returns the kinds of nodes that the example is about: those of its mark, or that of its page.
func (e Example) Nodes() []string {
	switch {
	case len(e.Mark.Nodes) > 0:
		return e.Mark.Nodes
	case path.Base(e.File) == "dcm-nvidia.7":
		return []string{"h100-8"}
	}
	return []string{"mi300x-8"}
}

// selects matches a configuration that selects a profile.
var selects = regexp.MustCompile(`(?m)^profile *=`)

// Base returns the configuration of the node before the example: the lowest file, which the example is added to. Its
// profile is selected, unless the example selects one.
func (e Example) Base(kind string) string {
	text := "profile = \"base\"\n\n"
	if e.Kind == Config && selects.MatchString(e.Text) {
		text = ""
	}
	amd, nvidia := "compute = \"CPX\"\n", "mig = { \"3g.40gb\" = 1, \"1g.10gb\" = 4 }\n"
	switch e.Mark.Base {
	case "dynamic": // leases and services divide the GPUs
		amd, nvidia = "compute = \"SPX\"\ndynamic = true\n", "mig = {}\ndynamic = true\n"
	case "single": // each GPU changes by itself
		text += "[apply]\nunit-of-change = \"gpu\"\n\n"
	}
	text += "[profiles.base]\n"
	if strings.HasPrefix(kind, "mi") {
		text += "memory = \"NPS1\"\n"
		text += "\n[[profiles.base.group]]\ncount = \"rest\"\n" + amd
	}
	if strings.Contains(kind, "h100") {
		text += "\n[[profiles.base.group]]\ncount = \"rest\"\n" + nvidia
	}
	return text
}
