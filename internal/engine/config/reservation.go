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

// Reservation is a number of partitions for a unit or, without a unit, for another resource manager.
type Reservation struct {
	Name       string // name of its directory below /dev/dcm
	Unit       string // "vllm@a.service"; "" for none
	Partitions int    // 0 if Whole
	Whole      bool   // all partitions of GPUs, in whatever mode; other Whole reservations may have them too
	Place      string // placement: "pack", "spread" or "link"
	Exclusive  bool   // no other process may open the partitions
	Share      int    // number of instances of the template Unit that share the partitions; 0 if Unit is no template or Make is set
	Make       string // MIG profile of the instance that is created when Unit, or an instance of it, starts; "" for none
	GPUs       []partition.Selector
	Sought     partition.Criteria // required kind of the partitions
	Devices    []string           // patterns of other device nodes that Unit may open
	Source     string             // file:line
	Broken     bool               // the entry has errors, and the unit gets no partition
}

// Label names the entry of the configuration: "reservation vllm", or "client vllm@3.service" for one with gpus.
func (r Reservation) Label() string {
	if r.Whole {
		return "client " + r.Unit
	}
	return "reservation " + r.Name
}

// Asks returns all settings of the reservation as one text. While the text is the same, the choice of
// partitions stays valid.
func (r Reservation) Asks() string {
	if r.Whole {
		return fmt.Sprintf("%s all of %v", r.Unit, r.GPUs)
	}
	text := fmt.Sprintf("%s %d %s %t %d %v", r.Unit, r.Partitions, r.Place, r.Exclusive, r.Share, r.GPUs)
	if r.Make != "" {
		text = fmt.Sprintf("%s makes %s on %v", r.Unit, r.Make, r.GPUs)
	} else if !r.Sought.Any() {
		text += " " + r.Sought.String()
	}
	if len(r.Devices) > 0 {
		text += fmt.Sprintf(" with %q", r.Devices)
	}
	return text
}

// format returns the reservation as a table of a dcm.toml.
func (r Reservation) format() string {
	var b strings.Builder
	fmt.Fprintf(&b, "[[reservation]]\nname = %s\n", source.Quote(r.Name))
	if r.Unit != "" {
		fmt.Fprintf(&b, "unit = %s\n", source.Quote(r.Unit))
	}
	if r.Make != "" {
		fmt.Fprintf(&b, "make = %s\n", source.Quote(r.Make))
	} else {
		fmt.Fprintf(&b, "partitions = %d\nplace = %s\nexclusive = %t\n", r.Partitions, source.Quote(r.Place), r.Exclusive)
	}
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
	if len(r.Devices) > 0 {
		fmt.Fprintf(&b, "devices = %s\n", source.Array(r.Devices, source.Quote))
	}
	return b.String()
}

// maxPartitions limits the partitions of a reservation. A system has fewer DRM minors.
const maxPartitions = 1024

// maxShares limits the number of sharers of a partition.
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
		"make":       rule.Scalar("a string", madeProfile),
		"devices":    leaseDevices(),
		"user":       rule.Scalar("a string", userName),
		"when":       rule.Scalar("a string", reservedHours),
	}, oneReservation), nil)
}

// reservationName checks a name, which is a file name and a part of the name of a CDI device.
func reservationName(name string) *source.Fault {
	const letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	if strings.HasSuffix(name, unitname.CompanionSuffix) {
		return &source.Fault{Text: "the suffix is reserved for links to companion nodes", Accepted: "a name without the suffix " + unitname.CompanionSuffix}
	}
	if name != "" && len(name) <= 64 && strings.Trim(name, letters+"_.-") == "" && strings.Trim(name, "_.-") == name {
		return nil
	}
	return &source.Fault{Text: "not a valid reservation name", Accepted: "at most 64 of A-Z, a-z, 0-9 and, inside, _ . -"}
}

// reservedUnit checks the name of a service.
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

// soughtIn returns the criteria of the keys vendor and mode.
func soughtIn(n *source.Node) (partition.Criteria, error) {
	vendor, _ := n.At("vendor").Text()
	mode, _ := n.At("mode").Text()
	return partition.ParseCriteria(vendor, mode)
}

func oneReservation(c *rule.Checker, key string, n *source.Node) {
	if gpus := n.At("gpus"); gpus != nil && !gpus.Bad && len(gpus.Items()) == 0 {
		c.Fail(gpus, source.DottedKey(key, "gpus"), &source.Fault{Text: "the list is empty", Accepted: "the GPUs to choose from, or no gpus key for all GPUs"})
	}
	if isForUser(n) {
		forUser(c, key, n)
		return
	}
	if when := n.At("when"); when != nil {
		c.Fail(when, source.DottedKey(key, "when"), &source.Fault{Text: "when is valid only with user", Accepted: `user = "alice"`})
	}
	if n.At("unit") == nil && n.At("name") == nil {
		c.Fail(n, key, &source.Fault{Text: "unit, name or user is missing", Accepted: `unit = "vllm.service", name = "slurm" for partitions that another manager allocates, or user = "alice"`})
	}
	if n.At("make") != nil {
		makes(c, key, n)
	} else {
		sharers(c, key, n)
	}
	if mode, vendor := n.At("mode"), n.At("vendor"); mode != nil && !mode.Bad && vendor != nil && !vendor.Bad {
		if _, err := soughtIn(n); err != nil {
			c.Fail(mode, source.DottedKey(key, "mode"), &source.Fault{Text: err.Error()})
		}
	}
	if devices := n.At("devices"); devices != nil && n.At("unit") == nil {
		c.Fail(devices, source.DottedKey(key, "devices"), &source.Fault{Text: "devices is valid only with unit", Accepted: `unit = "vllm.service"`})
	}
	if n.At("partitions") == nil && n.At("make") == nil {
		c.Fail(n, key, &source.Fault{Text: "partitions is missing", Accepted: "partitions = 2"})
	}
}

// sharers checks that share is set for a template, and only for a template.
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

// reservation reads a checked reservation.
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
	r.Sought, _ = soughtIn(n) // checked before
	if v := n.At("share"); v != nil {
		r.Share = int(v.Value.(int64))
	}
	rule.Read(n.At("make"), &r.Make)
	r.Devices = readDevices(n.At("devices"))
	return r
}

// nameOf returns the reservation name of a unit: "vllm-a" for "vllm@a.service".
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

// checkReservations checks the reservations of all layers, those of clients included: two of them must
// not have the same unit or name.
func checkReservations(c *rule.Checker, reservations, clients *source.Node) {
	units, names := make(map[string]*source.Node), make(map[string]*source.Node)
	check := func(key string, item *source.Node, r Reservation) {
		if before := units[r.Unit]; before != nil {
			c.Fail(item, key, &source.Fault{Text: fmt.Sprintf("%s already has a reservation, at %s", r.Unit, before.Place())})
		} else if before := names[r.Name]; before != nil {
			c.Fail(item, key, &source.Fault{Text: fmt.Sprintf("the name %q is already used, at %s", r.Name, before.Place()), Accepted: "another name"})
		} else if f := reservationName(r.Name); f != nil {
			c.Fail(item, key, &source.Fault{Text: fmt.Sprintf("the unit's name is not a valid reservation name (found %q)", r.Name), Accepted: `name = "…"`})
		}
		if r.Unit != "" {
			units[r.Unit] = item
		}
		names[r.Name] = item
	}
	for _, item := range forUnits(reservations) {
		if !item.Broken() {
			check("reservation", item, reservation(item))
		}
	}
	for _, item := range clients.Items() {
		if !item.Broken() && item.At("gpus") != nil {
			check("client", item, client(item).reservation())
		}
	}
}

func readReservations(n *source.Node) []Reservation {
	var out []Reservation
	for _, item := range forUnits(n) {
		out = append(out, reservation(item))
	}
	return out
}

// layOver merges a layer into the sum of those before it. Unlike other arrays, reservations, clients and
// budgets are appended, so that the drop-in of a package removes none.
func layOver(sum, root *source.Node) *source.Node {
	out := source.Merge(sum, root)
	for _, key := range []string{"reservation", "client", "budget"} {
		before, now := sum.At(key), root.At(key)
		if before == nil || now == nil {
			continue
		}
		source.Children(out)[key] = &source.Node{
			File: now.File, Line: now.Line, Bad: before.Bad || now.Bad,
			Value: slices.Concat(before.Items(), now.Items()),
		}
	}
	return out
}
