package config

import (
	"fmt"
	"slices"
	"strings"

	"dcm/internal/linux/unitname"
)

// suffixes of units that can be clients.
func suffixes() []string { return []string{".service", ".socket", ".target", ".timer", ".path"} }

// early tells of units that dcm-apply.service itself is started after: to order them
// after it would be a cycle, which systemd breaks by dropping a job at boot.
func early(unit string) bool {
	switch unit {
	case "sysinit.target", "basic.target", "sockets.target", "paths.target", "slices.target", "local-fs.target", "dbus.service", "dbus.socket", "dbus-broker.service",
		"systemd-modules-load.service", "systemd-udevd.service", "systemd-udev-trigger.service", "systemd-journald.service", "systemd-journald.socket",
		"nvidia-persistenced.service", "nvidia-fabricmanager.service", "nvidia-imex.service":
		return true
	}
	return false
}

// longestUnit is systemd's UNIT_NAME_MAX without the closing NUL.
const longestUnit = 255

// unit returns the name with its suffix, as systemctl would take it: ".service"
// is added where there is none that systemd knows.
func unit(name string) (string, *fault) {
	dot := strings.LastIndexByte(name, '.')
	suffix := ""
	if dot >= 0 {
		suffix = name[dot:]
	}
	if !slices.Contains(suffixes(), suffix) {
		switch suffix {
		case ".mount", ".automount", ".swap", ".slice", ".scope", ".device": // the other types of systemd.unit(5)
			return "", &fault{text: fmt.Sprintf("a %s unit cannot be a client", suffix), accepted: "units of the types " + enumerate(suffixes())}
		}
		if near := nearest(suffix, suffixes()); near != "" {
			return "", &fault{text: "not a suffix of systemd", suggestion: name[:dot] + near}
		}
		name += ".service"
	}
	if f := unitForm(name); f != nil {
		return "", f
	}
	switch {
	case unitname.Own(name):
		return "", &fault{text: "dcm's own unit cannot be its client"}
	case early(name):
		return "", &fault{text: unitname.Apply + " is started after it, so it cannot wait for " + unitname.Apply}
	}
	return name, nil
}

// unitForm follows systemd's unit_name_is_valid.
func unitForm(name string) *fault {
	const chars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:-_.\\@"
	stem := name[:strings.LastIndexByte(name, '.')]
	prefix, _, _ := strings.Cut(stem, "@")
	odd := strings.IndexFunc(stem, func(r rune) bool { return !strings.ContainsRune(chars, r) })
	switch {
	case stem == "":
		return &fault{text: "not a unit name: it is empty"}
	case odd >= 0:
		r := []rune(stem[odd:])[0]
		return &fault{text: fmt.Sprintf("not a unit name: %q cannot be in one", r), accepted: `letters, digits and :-_.\@ (systemd-escape --mangle writes the rest)`}
	case stem[0] == '@':
		return &fault{text: "not a unit name: nothing stands before the @"}
	case strings.HasSuffix(prefix, "-"):
		// systemd.unit(5): a drop-in directory foo-.service.d is of all foo-*.service.
		return &fault{text: "its drop-in would hold for every unit whose name begins so", accepted: "the names of the units, one by one"}
	case len(name) > longestUnit:
		return &fault{text: fmt.Sprintf("not a unit name: %d bytes with its suffix, where systemd takes %d", len(name), longestUnit)}
	}
	return nil
}

func unitFault(name string) *fault {
	_, f := unit(name)
	return f
}

// onceEach warns of units named twice, which does no harm: "gpuagent" and
// "gpuagent.service" are easily both in a list that several people keep.
func onceEach(c *checker, key string, n *node) {
	first := make(map[string]*node)
	for _, item := range n.items() {
		name, ok := item.value.(string)
		if !ok {
			continue
		}
		name, f := unit(name)
		if f != nil {
			continue
		}
		if before := first[name]; before != nil {
			c.warn(item, "%s: %s is named twice, first on line %d", key, name, before.line)
			continue
		}
		first[name] = item
	}
}
