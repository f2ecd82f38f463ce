package config

import (
	"fmt"
	"slices"
	"strings"

	"dcm/internal/gpu/partition"
)

// inMIGParted is the key that makes a document one of mig-parted's.
const inMIGParted = "mig-configs"

// migParted is the form of mig-parted's config.yaml.
func migParted() rule {
	entry := fixed(map[string]rule{
		"device-filter": devices(),
		"devices":       entryDevices(),
		"mig-enabled":   boolean(),
		"mig-devices":   migDevices(),
	}, oneEntry)
	return fixed(map[string]rule{
		"version":   scalar(`the string "v1"`, versionOne),
		inMIGParted: eachAlone(list(entry, allEntries)),
	}, require("version", inMIGParted))
}

func versionOne(v string) *fault {
	if v == "v1" {
		return nil
	}
	return &fault{text: "not a version that this dcm reads", accepted: "v1"}
}

const allDevices = "all"

func entryDevices() rule {
	accepted := `"all", or an array of indices such as [0, 1]`
	indices := list(scalar("an index", func(v int64) *fault {
		if v < 0 || v >= mostGPUs {
			return &fault{text: "no index of a GPU", accepted: "an integer from 0"}
		}
		return nil
	}), nil)
	return rule{judge: func(c *checker, key string, n *node) {
		switch v := n.value.(type) {
		case string:
			if v != allDevices {
				c.fail(n, key, &fault{"names no GPUs", accepted, nearest(v, []string{allDevices})})
			}
		case []*node:
			indices.judge(c, key, n)
		default:
			f := wrongType("a string or an array", n)
			f.accepted = accepted
			c.fail(n, key, f)
		}
	}}
}

// migDevices is a table of counts; nothing at all is none, as an empty one.
func migDevices() rule {
	return rule{judge: func(c *checker, key string, n *node) {
		switch v := n.value.(type) {
		case nil:
		case table:
			_, ok := counts(c, key, v)
			n.bad = n.bad || !ok
		default:
			c.fail(n, key, wrongType("a table", n))
		}
	}}
}

func oneEntry(c *checker, key string, n *node) {
	require("devices", "mig-enabled")(c, key, n)
	enabled, with := n.at("mig-enabled"), n.at("mig-devices")
	if enabled != nil && enabled.value == false && len(tables(with)) > 0 {
		c.fail(with, dotted(key, "mig-devices"), &fault{text: "there can be none where mig-enabled is false"})
	}
}

// allEntries refuses entries of which two are for the same GPU: there the last one
// counts, and here each GPU is in one group.
func allEntries(c *checker, key string, n *node) {
	all := n.items()
	if len(all) == 0 {
		c.fail(n, key, &fault{text: "holds no entry"})
	}
	for i, entry := range all {
		for _, before := range all[:i] {
			if !entry.broken() && !before.broken() && overlap(before, entry) {
				c.fail(entry, key, &fault{text: fmt.Sprintf("is for GPUs that the entry on line %d is for too; dcm has each GPU in one group", before.line)})
				break
			}
		}
	}
}

func overlap(a, b *node) bool {
	return overlapFilters(readDevices(a.at("device-filter")), readDevices(b.at("device-filter"))) &&
		overlapDevices(a.at("devices"), b.at("devices"))
}

func overlapFilters(a, b []partition.Filter) bool {
	if len(a) == 0 || len(b) == 0 {
		return true
	}
	either := func(x, y uint16) bool { return x == 0 || y == 0 || x == y }
	return slices.ContainsFunc(a, func(x partition.Filter) bool {
		return slices.ContainsFunc(b, func(y partition.Filter) bool {
			return x.Device == y.Device && either(x.SubDevice, y.SubDevice) && either(x.SubVendor, y.SubVendor)
		})
	})
}

func overlapDevices(a, b *node) bool {
	if a.value == allDevices || b.value == allDevices {
		return true
	}
	return slices.ContainsFunc(a.items(), func(x *node) bool {
		return slices.ContainsFunc(b.items(), func(y *node) bool { return x.value == y.value })
	})
}

// readEntries makes a profile of the entries of a configuration.
func readEntries(name string, n *node) partition.Profile {
	p := partition.Profile{Name: name}
	for _, entry := range n.items() {
		g := partition.Group{MIG: entryMIG(entry), Devices: readDevices(entry.at("device-filter")), GPUs: chosen(entry.at("devices"))}
		g.Rest = entry.at("devices").value == allDevices
		if g.Rest || len(g.GPUs) > 0 {
			p.Groups = append(p.Groups, g)
		}
	}
	if len(p.Groups) == 1 && p.Groups[0].Rest && len(p.Groups[0].Devices) == 0 {
		p.MIG, p.Groups = p.Groups[0].MIG, nil
	}
	return p
}

func entryMIG(entry *node) *partition.MIG {
	if entry.at("mig-enabled").value == false {
		return &partition.MIG{Off: true}
	}
	counts := make(map[string]int)
	for name, n := range tables(entry.at("mig-devices")) {
		counts[name] = int(n.value.(int64))
	}
	m, _ := partition.NewMIG(counts) // judged
	return &m
}

// byIndex reports whether a profile names GPUs by their index.
func byIndex(p partition.Profile) bool {
	return slices.ContainsFunc(p.Groups, func(g partition.Group) bool {
		return slices.ContainsFunc(g.GPUs, func(s partition.Selector) bool { return s.Address == "" })
	})
}

// aboutIndices is said once of a document that names GPUs by their index.
const aboutIndices = "the indices in devices count every GPU of NVIDIA's there, and here those that have MIG: compare them with dcm gpus; PCI addresses are safer"

// readMIGParted reads a config.yaml into profiles.
func (c *importer) readMIGParted(root *node) *Config {
	c.root = rule{}
	migParted().judge(c.checker, "", root)
	cfg := defaults()
	if len(c.problems) > 0 {
		return cfg
	}
	warned := false
	for name, n := range tables(root.at(inMIGParted)) {
		cfg.Profiles[name] = c.addressed(readEntries(name, n))
		if byIndex(cfg.Profiles[name]) && !warned {
			warned = true
			c.warn(root.at(inMIGParted), aboutIndices)
		}
	}
	cfg.Unusable = leaveOut(c.checker, cfg)
	return cfg
}

// indexed are the GPUs that mig-parted's indices count: all of NVIDIA's in PCI order. There
// are none if no GPU is known to have MIG, as while the driver is not loaded.
func indexed(here []partition.GPU) []partition.GPU {
	all := slices.DeleteFunc(slices.Clone(here), func(g partition.GPU) bool { return g.Vendor != partition.NVIDIA })
	if !slices.ContainsFunc(all, func(g partition.GPU) bool { return g.MIG != nil }) {
		return nil
	}
	slices.SortFunc(all, func(a, b partition.GPU) int { return a.Address.Compare(b.Address) })
	return all
}

// addressed puts PCI addresses in place of mig-parted's indices, which count every NVIDIA GPU
// of the host. A GPU without MIG is left out where the entry turns MIG off, or is for another
// model: there is nothing to do.
func (c *importer) addressed(p partition.Profile) partition.Profile {
	var groups []partition.Group
	for _, g := range p.Groups {
		named := len(g.GPUs) > 0
		g.GPUs = slices.DeleteFunc(slices.Clone(g.GPUs), func(s partition.Selector) bool {
			if s.Index >= len(c.indexed) {
				return false
			}
			one := c.indexed[s.Index]
			return one.MIG == nil && (g.MIG.Off || !g.MatchesFilter(one))
		})
		for i, s := range g.GPUs {
			if s.Index < len(c.indexed) {
				g.GPUs[i] = partition.Selector{Address: c.indexed[s.Index].Address}
			}
		}
		if !named || len(g.GPUs) > 0 {
			groups = append(groups, g)
		}
	}
	if len(groups) > 0 {
		p.Groups = groups
	}
	return p
}

// migPartedHead is the head of a file imported from mig-parted.
func migPartedHead(c *Config) string {
	var b strings.Builder
	b.WriteString("# Imported from mig-parted's configuration.")
	if c.Selected == "" {
		b.WriteString(" To select a profile:\n")
		for _, name := range c.Names() {
			fmt.Fprintf(&b, "#   dcm use %s\n", word(name))
		}
	} else {
		b.WriteString(" It selects what its service had selected.\n")
	}
	for _, name := range unusable(c) {
		fmt.Fprintf(&b, "# Left out, since it cannot be selected: %s\n", clip(name))
	}
	b.WriteByte('\n')
	return b.String()
}
