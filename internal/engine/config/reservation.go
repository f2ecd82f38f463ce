package config

import (
	"fmt"
	"slices"
	"strings"

	"dcm/internal/engine/config/rule"
	"dcm/internal/engine/config/source"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/unitname"
)

// Reservation is partitions that are kept for one unit or, where it has none, out of
// dcm's hands for somebody else to give away.
type Reservation struct {
	Name       string // of its directory below /dev/dcm
	Unit       string // "vllm@a.service"; "" for none
	Partitions int
	Place      string // how they shall lie to each other: "pack", "spread", "link"
	Exclusive  bool   // they open nowhere else
	Share      int    // how many instances of Unit, a template then, have them together; 0 for one service
	GPUs       []partition.Selector
	Sought     partition.Criteria // of which kind they are to be
	Source     string             // file:line
	Broken     bool               // there is something wrong with it, and no partition for it
}

// Asks is all that the reservation says, in one text: where it is the same, the choice
// holds.
func (r Reservation) Asks() string {
	text := fmt.Sprintf("%s %d %s %t %d %v", r.Unit, r.Partitions, r.Place, r.Exclusive, r.Share, r.GPUs)
	if !r.Sought.Any() {
		text += " " + r.Sought.String()
	}
	return text
}

// format writes the reservation as the table of a dcm.toml.
func (r Reservation) format() string {
	var b strings.Builder
	fmt.Fprintf(&b, "[[reservation]]\nname = %s\n", source.Quote(r.Name))
	if r.Unit != "" {
		fmt.Fprintf(&b, "unit = %s\n", source.Quote(r.Unit))
	}
	fmt.Fprintf(&b, "partitions = %d\nplace = %s\nexclusive = %t\n", r.Partitions, source.Quote(r.Place), r.Exclusive)
	if r.Share > 0 {
		fmt.Fprintf(&b, "share = %d\n", r.Share)
	}
	if r.Sought.Vendor != 0 {
		fmt.Fprintf(&b, "vendor = %s\n", source.Quote(r.Sought.Vendor.Name()))
	}
	if r.Sought.Mode != "" {
		fmt.Fprintf(&b, "mode = %s\n", source.Quote(r.Sought.Mode))
	}
	if len(r.GPUs) > 0 {
		fmt.Fprintf(&b, "gpus = %s\n", source.Array(r.GPUs, rule.FormatSelector))
	}
	return b.String()
}

// maxPartitions is how many one reservation can ask for: the DRM minors of one
// system are fewer.
const maxPartitions = 1024

// maxShares is how many can have one partition together.
const maxShares = 64

func reservations() rule.Rule {
	return rule.List(rule.Table(map[string]rule.Rule{
		"name":       rule.Scalar("a string", reservationName),
		"unit":       rule.Scalar("a string", reservedUnit),
		"partitions": rule.Scalar("an integer", rule.Between(1, maxPartitions)),
		"place":      rule.OneOf("a place", "pack", "spread", "link"),
		"exclusive":  rule.Boolean(),
		"share":      rule.Scalar("an integer", rule.Between(2, maxShares)),
		"gpus":       rule.Selectors(),
		"vendor":     rule.OneOf("a vendor", partition.AMD.Name(), partition.NVIDIA.Name()),
		"mode":       rule.Scalar("a string", soughtMode),
	}, oneReservation), nil)
}

// reservationName is what is a file name, a part of a CDI device's name and a word.
func reservationName(name string) *source.Fault {
	const letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	if strings.HasSuffix(name, unitname.Beside) {
		return &source.Fault{Text: "the suffix is reserved for links to companion nodes", Accepted: "a name without the suffix " + unitname.Beside}
	}
	if name != "" && len(name) <= 64 && strings.Trim(name, letters+"_.-") == "" && strings.Trim(name, "_.-") == name {
		return nil
	}
	return &source.Fault{Text: "not a valid reservation name", Accepted: "at most 64 of A-Z, a-z, 0-9 and, inside, _ . -"}
}

// reservedUnit is a service that a client could be.
func reservedUnit(name string) *source.Fault {
	full, f := rule.ParseUnit(name)
	switch {
	case f != nil:
		return f
	case !strings.HasSuffix(full, ".service"):
		return &source.Fault{Text: "not a service", Accepted: "a .service unit"}
	}
	return nil
}

func soughtMode(mode string) *source.Fault {
	if _, err := partition.ParseCriteria("", mode); err != nil || mode == "" {
		return &source.Fault{Text: "not a mode of partitions", Accepted: "a compute mode, such as CPX or CPX/NPS4, or a MIG profile, such as 3g.40gb"}
	}
	return nil
}

// soughtIn is what the two keys say together.
func soughtIn(n *source.Node) (partition.Criteria, error) {
	vendor, _ := n.At("vendor").Text()
	mode, _ := n.At("mode").Text()
	return partition.ParseCriteria(vendor, mode)
}

func oneReservation(c *rule.Checker, key string, n *source.Node) {
	if n.At("unit") == nil && n.At("name") == nil {
		c.Fail(n, key, &source.Fault{Text: "unit or name is missing", Accepted: `unit = "vllm.service", or name = "slurm" for partitions that another manager allocates`})
	}
	sharers(c, key, n)
	if mode, vendor := n.At("mode"), n.At("vendor"); mode != nil && !mode.Bad && vendor != nil && !vendor.Bad {
		if _, err := soughtIn(n); err != nil {
			c.Fail(mode, source.DottedKey(key, "mode"), &source.Fault{Text: err.Error()})
		}
	}
	if n.At("partitions") == nil {
		c.Fail(n, key, &source.Fault{Text: "partitions is missing", Accepted: "partitions = 2"})
	}
	if gpus := n.At("gpus"); gpus != nil && !gpus.Bad && len(gpus.Items()) == 0 {
		c.Fail(gpus, source.DottedKey(key, "gpus"), &source.Fault{Text: "the list is empty", Accepted: "the GPUs to choose from, or no gpus key for all GPUs"})
	}
}

// sharers: what is one service's is no template's, and what is shared is one's.
func sharers(c *rule.Checker, key string, n *source.Node) {
	text, named := n.At("unit").Text()
	share := n.At("share")
	if !named && share == nil || named && reservedUnit(text) != nil {
		return
	}
	full := ""
	if named {
		full, _ = rule.ParseUnit(text)
	}
	switch template := strings.Contains(full, "@."); {
	case template && share == nil:
		c.Fail(n.At("unit"), source.DottedKey(key, "unit"), &source.Fault{Text: "a template needs share",
			Accepted: "an instance, such as " + strings.Replace(full, "@.", "@a.", 1) + ", or share = 2 for two instances that share the partitions"})
	case !template && share != nil:
		c.Fail(share, source.DottedKey(key, "share"), &source.Fault{Text: "share is valid only with a template", Accepted: `unit = "vllm@.service"`})
	}
}

// reservation reads one that has been judged.
func reservation(n *source.Node) Reservation {
	r := Reservation{Place: "pack", GPUs: rule.ReadSelectors(n.At("gpus")), Source: n.Place()}
	if u, ok := n.At("unit").Text(); ok {
		r.Unit, _ = rule.ParseUnit(u)
		r.Name = nameOf(r.Unit)
	}
	rule.Read(n.At("name"), &r.Name)
	if v := n.At("partitions"); v != nil {
		r.Partitions = int(v.Value.(int64))
	}
	rule.ReadString(n.At("place"), &r.Place)
	rule.Read(n.At("exclusive"), &r.Exclusive)
	r.Sought, _ = soughtIn(n) // judged
	if v := n.At("share"); v != nil {
		r.Share = int(v.Value.(int64))
	}
	return r
}

// nameOf makes a unit's name one of a directory: "vllm@a.service" is "vllm-a".
func nameOf(unit string) string {
	stem := strings.TrimSuffix(unit, ".service")
	name := strings.Map(func(r rune) rune {
		switch {
		case r == '@':
			return '-'
		case strings.ContainsRune(`:\`, r):
			return '_'
		}
		return r
	}, stem)
	return strings.Trim(name[:min(len(name), 64)], "-_.")
}

// checkReservations judges the reservations of all layers together: two of them must not have
// one unit or one directory.
func checkReservations(c *rule.Checker, n *source.Node) {
	units, names := make(map[string]*source.Node), make(map[string]*source.Node)
	for _, item := range n.Items() {
		if item.Broken() {
			continue
		}
		r := reservation(item)
		if before := units[r.Unit]; before != nil {
			c.Fail(item, "reservation", &source.Fault{Text: fmt.Sprintf("%s already has a reservation, at %s", r.Unit, before.Place())})
		} else if before := names[r.Name]; before != nil {
			c.Fail(item, "reservation", &source.Fault{Text: fmt.Sprintf("the name %q is already used, at %s", r.Name, before.Place()), Accepted: "another name"})
		} else if f := reservationName(r.Name); f != nil {
			c.Fail(item, "reservation", &source.Fault{Text: fmt.Sprintf("the unit's name is not a valid reservation name (found %q)", r.Name), Accepted: `name = "…"`})
		}
		if r.Unit != "" {
			units[r.Unit] = item
		}
		names[r.Name] = item
	}
}

func readReservations(n *source.Node) []Reservation {
	var out []Reservation
	for _, item := range n.Items() {
		out = append(out, reservation(item))
	}
	return out
}

// layOver merges a layer into the sum of those before it. Unlike other arrays
// reservations add up, so that a package's drop-in takes none away.
func layOver(sum, root *source.Node) *source.Node {
	before, now := sum.At("reservation"), root.At("reservation")
	out := source.Merge(sum, root)
	if before != nil && now != nil {
		source.Children(out)["reservation"] = &source.Node{
			File: now.File, Line: now.Line, Bad: before.Bad || now.Bad,
			Value: slices.Concat(before.Items(), now.Items()),
		}
	}
	return out
}
