package importer

import (
	"fmt"
	"slices"
	"strings"

	"dcm/internal/engine/config"
	"dcm/internal/engine/config/rule"
	"dcm/internal/engine/config/source"
	"dcm/internal/gpu/partition"
)

// configsKey is the key that identifies a document of mig-parted.
const configsKey = "mig-configs"

// migParted is the rule of mig-parted's config.yaml.
func migParted() rule.Rule {
	entry := rule.Table(map[string]rule.Rule{
		"device-filter": rule.Devices(),
		"devices":       entryDevices(),
		"mig-enabled":   rule.Boolean(),
		"mig-devices":   migDevices(),
	}, oneEntry)
	return rule.Table(map[string]rule.Rule{
		"version":  rule.Scalar(`the string "v1"`, versionOne),
		configsKey: rule.IndependentTables(rule.List(entry, allEntries)),
	}, rule.Require("version", configsKey))
}

func versionOne(v string) *source.Fault {
	if v == "v1" {
		return nil
	}
	return &source.Fault{Text: "version not supported", Accepted: "v1"}
}

const allDevices = "all"

func entryDevices() rule.Rule {
	accepted := `"all", or an array of indices such as [0, 1]`
	indices := rule.List(rule.Scalar("an index", func(v int64) *source.Fault {
		if v < 0 || v >= rule.MaxGPUs {
			return &source.Fault{Text: "not a GPU index", Accepted: "an integer from 0"}
		}
		return nil
	}), nil)
	return rule.Rule{Check: func(c *rule.Checker, key string, n *source.Node) {
		switch v := n.Value.(type) {
		case string:
			if v != allDevices {
				c.Fail(n, key, &source.Fault{Text: "names no GPUs", Accepted: accepted, Suggestion: source.Nearest(v, []string{allDevices})})
			}
		case []*source.Node:
			indices.Check(c, key, n)
			if all := rule.ReadSelectors(n); len(all) != len(distinct(all)) {
				c.Warn(n, "%s lists a GPU twice", key)
			}
		default:
			f := rule.WrongType("a string or an array", n)
			f.Accepted = accepted
			c.Fail(n, key, f)
		}
	}}
}

// distinct returns the GPUs without repetition.
func distinct(all []partition.Selector) []partition.Selector {
	var once []partition.Selector
	for _, s := range all {
		if !slices.Contains(once, s) {
			once = append(once, s)
		}
	}
	return once
}

// migDevices is the rule of a table of counts, or null.
func migDevices() rule.Rule {
	return rule.Rule{Check: func(c *rule.Checker, key string, n *source.Node) {
		switch v := n.Value.(type) {
		case nil:
		case source.Table:
			_, ok := rule.CheckMIGCounts(c, key, v)
			n.Bad = n.Bad || !ok
		default:
			c.Fail(n, key, rule.WrongType("a table", n))
		}
	}}
}

// oneEntry checks an entry as mig-parted does, see UnmarshalJSON of MigConfigSpec in its api/spec/v1.
func oneEntry(c *rule.Checker, key string, n *source.Node) {
	rule.Require("devices", "mig-enabled")(c, key, n)
	enabled, with := n.At("mig-enabled"), n.At("mig-devices")
	if enabled != nil && enabled.Value == true && (with == nil || with.Value == nil) {
		c.Fail(n, key, &source.Fault{Text: "mig-devices is missing, and mig-enabled is true", Accepted: "mig-devices: {} for no instance"})
	}
	if enabled != nil && enabled.Value == false && len(source.Children(with)) > 0 {
		c.Fail(with, source.DottedKey(key, "mig-devices"), &source.Fault{Text: "must be empty, since mig-enabled is false"})
	}
}

// allEntries reports two entries for the same GPU. In mig-parted the last one is effective; in dcm a
// GPU is in one group.
func allEntries(c *rule.Checker, key string, n *source.Node) {
	all := n.Items()
	if len(all) == 0 {
		c.Fail(n, key, &source.Fault{Text: "the list is empty"})
	}
	for i, entry := range all {
		for _, before := range all[:i] {
			if !entry.Broken() && !before.Broken() && overlap(before, entry) {
				c.Fail(entry, key, &source.Fault{Text: fmt.Sprintf("has GPUs of the entry on line %d; in dcm a GPU is in one group", before.Line)})
				break
			}
		}
	}
}

func overlap(a, b *source.Node) bool {
	return overlapFilters(rule.ReadDevices(a.At("device-filter")), rule.ReadDevices(b.At("device-filter"))) &&
		overlapDevices(a.At("devices"), b.At("devices"))
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

func overlapDevices(a, b *source.Node) bool {
	if a.Value == allDevices || b.Value == allDevices {
		return true
	}
	return slices.ContainsFunc(a.Items(), func(x *source.Node) bool {
		return slices.ContainsFunc(b.Items(), func(y *source.Node) bool { return x.Value == y.Value })
	})
}

// readEntries returns the profile of the entries of a configuration.
func readEntries(name string, n *source.Node) partition.Profile {
	p := partition.Profile{Name: name}
	for _, entry := range n.Items() {
		g := partition.Group{MIG: entryMIG(entry), Devices: rule.ReadDevices(entry.At("device-filter")), GPUs: distinct(rule.ReadSelectors(entry.At("devices")))}
		g.Rest = entry.At("devices").Value == allDevices
		if g.Rest || len(g.GPUs) > 0 {
			p.Groups = append(p.Groups, g)
		}
	}
	if len(p.Groups) == 1 && p.Groups[0].Rest && len(p.Groups[0].Devices) == 0 {
		p.MIG, p.Groups = p.Groups[0].MIG, nil
	}
	return p
}

func entryMIG(entry *source.Node) *partition.MIG {
	if entry.At("mig-enabled").Value == false {
		return &partition.MIG{Off: true}
	}
	counts := make(map[string]int)
	for name, n := range source.Children(entry.At("mig-devices")) {
		counts[name] = int(n.Value.(int64))
	}
	m, _ := partition.NewMIG(counts) // checked before
	return &m
}

// byIndex reports whether a profile names GPUs by their index.
func byIndex(p partition.Profile) bool {
	return slices.ContainsFunc(p.Groups, func(g partition.Group) bool {
		return slices.ContainsFunc(g.GPUs, func(s partition.Selector) bool { return s.Address == "" })
	})
}

// aboutIndices is the warning, once for each document, about indices of GPUs.
const aboutIndices = "indices in devices count all NVIDIA GPUs in mig-parted, but only GPUs with MIG in dcm: compare them with dcm gpus; PCI addresses are safer"

// readMIGParted returns the profiles of a config.yaml.
func (c *importer) readMIGParted(root *source.Node) *config.Config {
	c.Root = rule.Rule{}
	migParted().Check(c.Checker, "", root)
	cfg := config.Defaults()
	if len(c.Problems) > 0 {
		return cfg
	}
	warned := false
	for name, n := range source.Children(root.At(configsKey)) {
		cfg.Profiles[name] = c.addressed(readEntries(name, n))
		if byIndex(cfg.Profiles[name]) && !warned {
			warned = true
			c.Warn(root.At(configsKey), aboutIndices)
		}
	}
	cfg.Unusable = config.LeaveOut(c.Checker, cfg)
	return cfg
}

// indexed returns the GPUs to which mig-parted's indices refer: all NVIDIA GPUs in PCI order. It
// returns nil if no GPU is known to support MIG, for example without the driver.
func indexed(here []partition.GPU) []partition.GPU {
	all := slices.DeleteFunc(slices.Clone(here), func(g partition.GPU) bool { return g.Vendor != partition.NVIDIA })
	if !slices.ContainsFunc(all, func(g partition.GPU) bool { return g.MIG != nil }) {
		return nil
	}
	slices.SortFunc(all, func(a, b partition.GPU) int { return a.Address.Compare(b.Address) })
	return all
}

// addressed replaces mig-parted's indices by PCI addresses. It leaves out a GPU without MIG if the
// entry turns MIG off or is for another model.
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

// migPartedHead returns the head of a file that was imported from mig-parted.
func migPartedHead(c *config.Config) string {
	var b strings.Builder
	b.WriteString("# Imported from mig-parted's configuration.")
	if c.Selected == "" {
		b.WriteString(" To select a profile:\n")
		for _, name := range c.Names() {
			fmt.Fprintf(&b, "#   dcm use %s\n", shellWord(name))
		}
	} else {
		b.WriteString(" It selects the profile of mig-parted's service.\n")
	}
	for _, name := range unusable(c) {
		fmt.Fprintf(&b, "# Left out, since it cannot be selected: %s\n", source.QuoteShort(name))
	}
	b.WriteByte('\n')
	return b.String()
}
