package rule

import (
	"fmt"
	"slices"
	"strings"

	"dcm/internal/engine/config/source"
	"dcm/internal/linux/unitname"
)

// unitSuffixes returns the suffixes of units that can be clients.
func unitSuffixes() []string { return []string{".service", ".socket", ".target", ".timer", ".path"} }

// startedBeforeApply reports whether dcm-apply.service is ordered after the unit. An order in the other
// direction would be a cycle, which systemd breaks at boot by dropping a job.
func startedBeforeApply(unit string) bool {
	switch unit {
	case "sysinit.target", "basic.target", "sockets.target", "paths.target", "slices.target", "local-fs.target", "dbus.service", "dbus.socket", "dbus-broker.service",
		"systemd-modules-load.service", "systemd-udevd.service", "systemd-udev-trigger.service", "systemd-journald.service", "systemd-journald.socket",
		"nvidia-persistenced.service", "nvidia-fabricmanager.service", "nvidia-imex.service":
		return true
	}
	return false
}

// ParseUnit returns the unit name with its suffix. Like systemctl, it appends ".service" to a name
// without a known suffix.
func ParseUnit(name string) (string, *source.Fault) {
	dot := strings.LastIndexByte(name, '.')
	suffix := ""
	if dot >= 0 {
		suffix = name[dot:]
	}
	if !slices.Contains(unitSuffixes(), suffix) {
		switch suffix {
		case ".mount", ".automount", ".swap", ".slice", ".scope", ".device": // other types of systemd.unit(5)
			return "", &source.Fault{Text: fmt.Sprintf("a %s unit cannot be a client", suffix), Accepted: "units of the types " + source.Enumerate(unitSuffixes())}
		}
		if near := source.Nearest(suffix, unitSuffixes()); near != "" {
			return "", &source.Fault{Text: "not a unit suffix of systemd", Suggestion: name[:dot] + near}
		}
		name += ".service"
	}
	if f := checkUnitName(name); f != nil {
		return "", f
	}
	switch {
	case unitname.Own(name):
		return "", &source.Fault{Text: "dcm's own unit cannot be its client"}
	case startedBeforeApply(name):
		return "", &source.Fault{Text: unitname.Apply + " starts after it, but clients must start after " + unitname.Apply}
	}
	return name, nil
}

// checkUnitName is [unitname.Valid] with the reason.
func checkUnitName(name string) *source.Fault {
	stem := name[:strings.LastIndexByte(name, '.')]
	prefix, _, _ := strings.Cut(stem, "@")
	odd := strings.IndexFunc(stem, func(r rune) bool { return !strings.ContainsRune(unitname.Characters, r) })
	switch {
	case stem == "":
		return &source.Fault{Text: "not a unit name: it is empty"}
	case odd >= 0:
		r := []rune(stem[odd:])[0]
		return &source.Fault{Text: fmt.Sprintf("not a unit name: %q cannot be in one", r), Accepted: `letters, digits and :-_.\@ (systemd-escape --mangle writes the rest)`}
	case stem[0] == '@':
		return &source.Fault{Text: "not a unit name: empty before the @"}
	case strings.HasSuffix(prefix, "-"):
		// systemd.unit(5): a drop-in directory foo-.service.d is of all foo-*.service.
		return &source.Fault{Text: "a drop-in for it would apply to all units with this prefix", Accepted: "the names of the units"}
	case len(name) > unitname.MaxLength:
		return &source.Fault{Text: fmt.Sprintf("not a unit name: too long (found %d bytes, want at most %d)", len(name), unitname.MaxLength)}
	}
	return nil
}

// Unit checks the name of a client.
func Unit(name string) *source.Fault {
	_, f := ParseUnit(name)
	return f
}

// WarnRepeatedUnits warns of repeated units, such as "gpuagent" and "gpuagent.service".
func WarnRepeatedUnits(c *Checker, key string, n *source.Node) {
	first := make(map[string]*source.Node)
	for _, item := range n.Items() {
		name, ok := item.Value.(string)
		if !ok {
			continue
		}
		name, f := ParseUnit(name)
		if f != nil {
			continue
		}
		if before := first[name]; before != nil {
			c.Warn(item, "%s: %s is listed twice, first on line %d", key, name, before.Line)
			continue
		}
		first[name] = item
	}
}

// ReadUnits returns the names with their suffixes, without repetitions.
func ReadUnits(n *source.Node) []string {
	var all []string
	seen := make(map[string]bool)
	for _, item := range n.Items() {
		name, _ := ParseUnit(item.Value.(string))
		if !seen[name] {
			seen[name] = true
			all = append(all, name)
		}
	}
	return all
}
