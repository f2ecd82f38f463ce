package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"dcm/internal/gpu/partition"
)

// off is MIG turned off, in the place of a geometry.
const off = "off"

// geometry is what mig says, once it is judged. It is no table any more: a layer that
// says it anew says all of it.
type geometry struct{ mig *partition.MIG }

const migAccepted = `"off", or a table of MIG profiles and how many there are to be of each, such as { "3g.40gb" = 1, "1g.10gb" = 4 }`

// mig is a MIG geometry.
func mig() rule {
	return rule{judge: func(c *checker, key string, n *node) {
		switch v := n.value.(type) {
		case string:
			if v != off {
				c.fail(n, key, &fault{"no MIG geometry", migAccepted, nearest(v, []string{off})})
				return
			}
			n.value = geometry{&partition.MIG{Off: true}}
		case table:
			counts, ok := counts(c, key, v)
			n.bad = n.bad || !ok
			if m, err := partition.NewMIG(counts); ok && err == nil {
				n.value = geometry{&m}
			}
		default:
			f := wrongType(`"off" or a table`, n)
			f.accepted = migAccepted
			c.fail(n, key, f)
		}
	}}
}

// mostInstances bounds the instances of one profile; no GPU has room for so many.
const mostInstances = 64

func counts(c *checker, key string, t table) (map[string]int, bool) {
	counts, ok := make(map[string]int), true
	fail := func(n *node, key string, f *fault) {
		c.fail(n, key, f)
		ok = false
	}
	for _, name := range t.keys() {
		n, at := t[name], dotted(key, name)
		p, err := partition.ParseMIGProfile(name)
		number, isNumber := n.value.(int64)
		switch {
		case err != nil || strings.HasPrefix(name, "MIG "):
			fail(n, at, &fault{text: "not a MIG profile", accepted: "names such as 1g.10gb, 1c.3g.40gb or 1g.10gb+me; dcm check lists those of a GPU"})
		case !isNumber:
			fail(n, at, wrongType("an integer", n))
		case number < 1 || number > mostInstances:
			fail(n, at, &fault{text: "no number of instances", accepted: fmt.Sprintf("an integer from 1 to %d", mostInstances)})
		case p.String() != name:
			fail(n, at, &fault{text: "not a MIG profile", suggestion: p.String()})
		default:
			counts[name] = int(number)
		}
	}
	return counts, ok
}

const deviceAccepted = `a PCI device id such as "0x2330", or one with that of the board behind it, such as "0x20b2:0x1533"`

// devices is a filter of boards, or an array of them.
func devices() rule {
	each := rule{judge: func(c *checker, key string, n *node) {
		s, ok := n.value.(string)
		if !ok {
			c.fail(n, key, wrongType("a string", n))
		} else if _, err := filter(s); err != nil {
			c.fail(n, key, &fault{text: err.Error(), accepted: deviceAccepted})
		}
	}}
	many := list(each, func(c *checker, key string, n *node) {
		if len(n.items()) == 0 {
			c.fail(n, key, &fault{text: "names no device", accepted: deviceAccepted})
		}
	})
	return rule{judge: func(c *checker, key string, n *node) {
		if _, one := n.value.(string); one {
			each.judge(c, key, n)
			return
		}
		many.judge(c, key, n)
	}}
}

// filter reads "0x2330" or "0x20b2:0x1533", and the longer form of mig-parted, in which
// each id has its vendor's behind it, "0x233010DE".
func filter(s string) (partition.Filter, error) {
	device, board, hasBoard := strings.Cut(s, ":")
	id, vendor, err := ids(device)
	if err != nil || vendor != 0 && vendor != uint16(partition.NVIDIA) {
		return partition.Filter{}, fmt.Errorf("no device of NVIDIA's")
	}
	f := partition.Filter{Device: id}
	if hasBoard {
		if f.SubDevice, f.SubVendor, err = ids(board); err != nil {
			return partition.Filter{}, fmt.Errorf("no board of NVIDIA's")
		}
	}
	return f, nil
}

// ids reads an id of four digits, and a vendor's in the four behind it if there are some.
func ids(s string) (id, vendor uint16, err error) {
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

func readMIG(n *node) *partition.MIG {
	if n == nil {
		return nil
	}
	return n.value.(geometry).mig
}

func readDevices(n *node) []partition.Filter {
	if n == nil {
		return nil
	}
	items := n.items()
	if items == nil {
		items = []*node{n}
	}
	all := make([]partition.Filter, len(items))
	for i, item := range items {
		all[i], _ = filter(item.value.(string))
	}
	return all
}

// formatMIG writes a geometry as TOML.
func formatMIG(m partition.MIG) string {
	if m.Off {
		return quote(off)
	}
	counts := m.Counts()
	pairs := make([]string, 0, len(counts))
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		pairs = append(pairs, fmt.Sprintf("%s = %d", quote(name), counts[name]))
	}
	if len(pairs) == 0 {
		return "{}"
	}
	return "{ " + strings.Join(pairs, ", ") + " }"
}

func formatFilter(f partition.Filter) string {
	text := fmt.Sprintf("0x%04x", f.Device)
	if f.SubDevice != 0 {
		text += fmt.Sprintf(":0x%04x", f.SubDevice)
	}
	if f.SubVendor != 0 {
		text += fmt.Sprintf("%04x", f.SubVendor)
	}
	return quote(text)
}

// sharedRest complains of two groups that take the rest of the same GPUs.
func sharedRest(c *checker, key string, groups []*node) {
	modes, boards := (*node)(nil), make(map[partition.Filter]*node)
	for _, group := range groups {
		number := group.at("count")
		if number == nil || number.value != rest || group.broken() {
			continue
		}
		if group.at("mig") == nil {
			if modes != nil {
				c.fail(number, dotted(key, "count"), &fault{text: fmt.Sprintf("only one group can take the rest, and one does on line %d", modes.line)})
			} else {
				modes = number
			}
			continue
		}
		filters := readDevices(group.at("device"))
		if len(filters) == 0 {
			filters = []partition.Filter{{}}
		}
		for _, f := range filters {
			switch before := boards[f]; {
			case before == number:
			case before == nil:
				boards[f] = number
			case f == partition.Filter{}:
				c.fail(number, dotted(key, "count"), &fault{text: fmt.Sprintf("only one group can take the rest, and one does on line %d", before.line)})
			default:
				c.fail(number, dotted(key, "count"), &fault{text: fmt.Sprintf("only one group can take the rest of the devices %s, and one does on line %d", formatFilter(f), before.line)})
			}
		}
	}
}
