package rule

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"dcm/internal/engine/config/source"
	"dcm/internal/gpu/partition"
)

// migOff is the value that turns MIG off.
const migOff = "off"

// geometry is the checked value of mig. It is not a [source.Table], so that a later layer replaces it
// instead of merging keys.
type geometry struct{ mig *partition.MIG }

const acceptedMIG = `"off", or a table with the number of instances of each MIG profile, such as { "3g.40gb" = 1, "1g.10gb" = 4 }`

// MIG is the rule of a MIG geometry.
func MIG() Rule {
	return Rule{Check: func(c *Checker, key string, n *source.Node) {
		switch v := n.Value.(type) {
		case string:
			if v != migOff {
				c.Fail(n, key, &source.Fault{Text: "not a MIG geometry", Accepted: acceptedMIG, Suggestion: source.Nearest(v, []string{migOff})})
				return
			}
			n.Value = geometry{&partition.MIG{Off: true}}
		case source.Table:
			counts, ok := CheckMIGCounts(c, key, v)
			n.Bad = n.Bad || !ok
			if m, err := partition.NewMIG(counts); ok && err == nil {
				n.Value = geometry{&m}
			}
		default:
			f := WrongType(`"off" or a table`, n)
			f.Accepted = acceptedMIG
			c.Fail(n, key, f)
		}
	}}
}

// maxInstances limits the instances of a profile. No GPU supports that many.
const maxInstances = 64

// CheckMIGCounts returns the number of instances by profile. It reports false after a problem.
func CheckMIGCounts(c *Checker, key string, t source.Table) (map[string]int, bool) {
	counts, ok := make(map[string]int), true
	fail := func(n *source.Node, key string, f *source.Fault) {
		c.Fail(n, key, f)
		ok = false
	}
	for _, name := range t.Keys() {
		n, at := t[name], source.DottedKey(key, name)
		p, err := partition.ParseMIGProfile(name)
		number, isNumber := n.Value.(int64)
		_, isTable := n.Value.(source.Table)
		switch {
		case isTable && len(unquotedProfiles(name, n)) > 0:
			fail(n, at, &source.Fault{Text: "TOML reads a name with a dot as two keys; write the MIG profile in quotes", Accepted: strings.Join(unquotedProfiles(name, n), ", ")})
		case err != nil || strings.HasPrefix(name, "MIG "):
			fail(n, at, &source.Fault{Text: "not a MIG profile", Accepted: "names such as 1g.10gb, 1c.3g.40gb or 1g.10gb+me; dcm check lists those of a GPU"})
		case !isNumber:
			fail(n, at, WrongType("an integer", n))
		case number < 1 || number > maxInstances:
			fail(n, at, &source.Fault{Text: "not a number of instances", Accepted: fmt.Sprintf("an integer from 1 to %d", maxInstances)})
		case p.String() != name:
			fail(n, at, &source.Fault{Text: "not a MIG profile", Suggestion: p.String()})
		default:
			counts[name] = int(number)
		}
	}
	return counts, ok
}

// unquotedProfiles returns the pairs that were intended if a key and its value are MIG profiles that
// were written without quotes: TOML reads 1g.10gb = 2 as the table 1g with the key 10gb. It returns nil
// if one of the names is no MIG profile.
func unquotedProfiles(name string, n *source.Node) []string {
	t, isTable := n.Value.(source.Table)
	if !isTable {
		if _, err := partition.ParseMIGProfile(name); err != nil {
			return nil
		}
		number, isNumber := n.Value.(int64)
		if !isNumber {
			number = 1
		}
		return []string{fmt.Sprintf("%s = %d", source.Quote(name), number)}
	}
	var pairs []string
	for _, key := range t.Keys() {
		inner := unquotedProfiles(name+"."+key, t[key])
		if inner == nil {
			return nil
		}
		pairs = append(pairs, inner...)
	}
	return pairs
}

const acceptedDevice = `a PCI device id such as "0x2330", or a device and a board id such as "0x20b2:0x1533"`

// Devices is the rule of a filter of boards, or an array of filters.
func Devices() Rule {
	each := Rule{Check: func(c *Checker, key string, n *source.Node) {
		s, ok := n.Value.(string)
		if !ok {
			c.Fail(n, key, WrongType("a string", n))
		} else if _, err := ParseFilter(s); err != nil {
			c.Fail(n, key, &source.Fault{Text: err.Error(), Accepted: acceptedDevice})
		}
	}}
	many := List(each, func(c *Checker, key string, n *source.Node) {
		if len(n.Items()) == 0 {
			c.Fail(n, key, &source.Fault{Text: "the list is empty", Accepted: acceptedDevice})
		}
	})
	return Rule{Check: func(c *Checker, key string, n *source.Node) {
		switch n.Value.(type) {
		case string:
			each.Check(c, key, n)
		case []*source.Node:
			many.Check(c, key, n)
		default:
			f := WrongType("a string or an array of strings", n)
			f.Accepted = acceptedDevice
			c.Fail(n, key, f)
		}
	}}
}

// ParseFilter parses "0x2330" or "0x20b2:0x1533". It accepts the longer form of mig-parted, in which
// the vendor id follows each id: "0x233010DE".
func ParseFilter(s string) (partition.Filter, error) {
	device, board, hasBoard := strings.Cut(s, ":")
	id, vendor, err := parseIDs(device)
	if err != nil || vendor != 0 && vendor != uint16(partition.NVIDIA) {
		return partition.Filter{}, fmt.Errorf("not an NVIDIA device id")
	}
	f := partition.Filter{Device: id}
	if hasBoard {
		if f.SubDevice, f.SubVendor, err = parseIDs(board); err != nil {
			return partition.Filter{}, fmt.Errorf("not a board id")
		}
	}
	return f, nil
}

// parseIDs parses an id of four digits, followed by a vendor id of four digits or nothing.
func parseIDs(s string) (id, vendor uint16, err error) {
	digits, ok := strings.CutPrefix(strings.ToLower(s), "0x")
	n, err := strconv.ParseUint(digits, 16, 32)
	switch {
	case !ok || err != nil || len(digits) != 4 && len(digits) != 8 || n == 0:
		return 0, 0, fmt.Errorf("no id")
	case len(digits) == 8:
		return uint16(n >> 16), uint16(n), nil
	}
	return uint16(n), 0, nil
}

// InstancesPossible reports whether a value of mig turns MIG on. A value with an error counts.
func InstancesPossible(n *source.Node) bool {
	if n == nil {
		return false
	}
	g, checked := n.Value.(geometry)
	return !checked || !g.mig.Off
}

// AsMIG returns the geometry if the value is a checked one.
func AsMIG(n *source.Node) (partition.MIG, bool) {
	g, ok := n.Value.(geometry)
	if !ok {
		return partition.MIG{}, false
	}
	return *g.mig, true
}

// ReadMIG returns a checked geometry; nil for a missing node.
func ReadMIG(n *source.Node) *partition.MIG {
	if n == nil {
		return nil
	}
	return n.Value.(geometry).mig
}

// ReadDevices returns checked filters.
func ReadDevices(n *source.Node) []partition.Filter {
	if n == nil {
		return nil
	}
	items := n.Items()
	if items == nil {
		items = []*source.Node{n}
	}
	all := make([]partition.Filter, len(items))
	for i, item := range items {
		all[i], _ = ParseFilter(item.Value.(string))
	}
	return all
}

// FormatMIG returns a geometry as TOML.
func FormatMIG(m partition.MIG) string {
	if m.Off {
		return source.Quote(migOff)
	}
	counts := m.Counts()
	pairs := make([]string, 0, len(counts))
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		pairs = append(pairs, fmt.Sprintf("%s = %d", source.Quote(name), counts[name]))
	}
	if len(pairs) == 0 {
		return "{}"
	}
	return "{ " + strings.Join(pairs, ", ") + " }"
}

// FormatFilter returns a filter as TOML.
func FormatFilter(f partition.Filter) string {
	text := fmt.Sprintf("0x%04x", f.Device)
	if f.SubDevice != 0 {
		text += fmt.Sprintf(":0x%04x", f.SubDevice)
	}
	if f.SubVendor != 0 {
		text += fmt.Sprintf("%04x", f.SubVendor)
	}
	return source.Quote(text)
}
