package config

import (
	"fmt"
	"slices"
	"strings"

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
	fmt.Fprintf(&b, "[[reservation]]\nname = %s\n", quote(r.Name))
	if r.Unit != "" {
		fmt.Fprintf(&b, "unit = %s\n", quote(r.Unit))
	}
	fmt.Fprintf(&b, "partitions = %d\nplace = %s\nexclusive = %t\n", r.Partitions, quote(r.Place), r.Exclusive)
	if r.Share > 0 {
		fmt.Fprintf(&b, "share = %d\n", r.Share)
	}
	if r.Sought.Vendor != 0 {
		fmt.Fprintf(&b, "vendor = %s\n", quote(r.Sought.Vendor.Name()))
	}
	if r.Sought.Mode != "" {
		fmt.Fprintf(&b, "mode = %s\n", quote(r.Sought.Mode))
	}
	if len(r.GPUs) > 0 {
		fmt.Fprintf(&b, "gpus = %s\n", array(r.GPUs, formatSelector))
	}
	return b.String()
}

// mostPartitions is how many one reservation can ask for: the DRM minors of one
// system are fewer.
const mostPartitions = 1024

// mostShares is how many can have one partition together.
const mostShares = 64

func reservations() rule {
	return list(fixed(map[string]rule{
		"name":       scalar("a string", reservationName),
		"unit":       scalar("a string", reservedUnit),
		"partitions": scalar("an integer", between(1, mostPartitions)),
		"place":      oneOf("a place", "pack", "spread", "link"),
		"exclusive":  boolean(),
		"share":      scalar("an integer", between(2, mostShares)),
		"gpus":       selectors(),
		"vendor":     oneOf("a vendor", partition.AMD.Name(), partition.NVIDIA.Name()),
		"mode":       scalar("a string", soughtMode),
	}, oneReservation), nil)
}

func between(least, most int64) func(int64) *fault {
	return func(n int64) *fault {
		if n < least || n > most {
			return &fault{text: "out of range", accepted: fmt.Sprintf("%d to %d", least, most)}
		}
		return nil
	}
}

// reservationName is what is a file name, a part of a CDI device's name and a word.
func reservationName(name string) *fault {
	const letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	if strings.HasSuffix(name, unitname.Beside) {
		return &fault{text: "the end of the name is that of the links to what goes with another reservation's partitions", accepted: "a name that does not end with " + unitname.Beside}
	}
	if name != "" && len(name) <= 64 && strings.Trim(name, letters+"_.-") == "" && strings.Trim(name, "_.-") == name {
		return nil
	}
	return &fault{text: "not a name for a reservation", accepted: "at most 64 of A-Z, a-z, 0-9 and, inside, _ . -"}
}

// reservedUnit is a service that a client could be.
func reservedUnit(name string) *fault {
	full, f := unit(name)
	switch {
	case f != nil:
		return f
	case !strings.HasSuffix(full, ".service"):
		return &fault{text: "partitions can be reserved for a service only", accepted: "a .service unit"}
	}
	return nil
}

func soughtMode(mode string) *fault {
	if _, err := partition.ParseCriteria("", mode); err != nil || mode == "" {
		return &fault{text: "not a mode of partitions", accepted: "a compute mode, such as CPX or CPX/NPS4, or a MIG profile, such as 3g.40gb"}
	}
	return nil
}

// soughtIn is what the two keys say together.
func soughtIn(n *node) (partition.Criteria, error) {
	vendor, _ := n.at("vendor").text()
	mode, _ := n.at("mode").text()
	return partition.ParseCriteria(vendor, mode)
}

func oneReservation(c *checker, key string, n *node) {
	if n.at("unit") == nil && n.at("name") == nil {
		c.fail(n, key, &fault{text: "a reservation needs to say for whom", accepted: `unit = "vllm.service", or name = "slurm" for partitions that dcm gives to nobody`})
	}
	sharers(c, key, n)
	if mode, vendor := n.at("mode"), n.at("vendor"); mode != nil && !mode.bad && vendor != nil && !vendor.bad {
		if _, err := soughtIn(n); err != nil {
			c.fail(mode, dotted(key, "mode"), &fault{text: err.Error()})
		}
	}
	if n.at("partitions") == nil {
		c.fail(n, key, &fault{text: "a reservation needs a number of partitions", accepted: "partitions = 2"})
	}
	if gpus := n.at("gpus"); gpus != nil && !gpus.bad && len(gpus.items()) == 0 {
		c.fail(gpus, dotted(key, "gpus"), &fault{text: "no GPU is left to choose from", accepted: "the GPUs to choose from, or no gpus at all for any"})
	}
}

// sharers: what is one service's is no template's, and what is shared is one's.
func sharers(c *checker, key string, n *node) {
	text, named := n.at("unit").text()
	share := n.at("share")
	if !named && share == nil || named && reservedUnit(text) != nil {
		return
	}
	full := ""
	if named {
		full, _ = unit(text)
	}
	switch template := strings.Contains(full, "@."); {
	case template && share == nil:
		c.fail(n.at("unit"), dotted(key, "unit"), &fault{text: "a template is many services",
			accepted: "an instance, such as " + strings.Replace(full, "@.", "@a.", 1) + ", or with share = 2 so many instances together"})
	case !template && share != nil:
		c.fail(share, dotted(key, "share"), &fault{text: "those who share are the instances of one template", accepted: `unit = "vllm@.service"`})
	}
}

// reservation reads one that has been judged.
func reservation(n *node) Reservation {
	r := Reservation{Place: "pack", GPUs: chosen(n.at("gpus")), Source: n.place()}
	if u, ok := n.at("unit").text(); ok {
		r.Unit, _ = unit(u)
		r.Name = nameOf(r.Unit)
	}
	read(n.at("name"), &r.Name)
	if v := n.at("partitions"); v != nil {
		r.Partitions = int(v.value.(int64))
	}
	readAs(n.at("place"), &r.Place)
	read(n.at("exclusive"), &r.Exclusive)
	r.Sought, _ = soughtIn(n) // judged
	if v := n.at("share"); v != nil {
		r.Share = int(v.value.(int64))
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
func checkReservations(c *checker, n *node) {
	units, names := make(map[string]*node), make(map[string]*node)
	for _, item := range n.items() {
		if item.broken() {
			continue
		}
		r := reservation(item)
		if before := units[r.Unit]; before != nil {
			c.fail(item, "reservation", &fault{text: fmt.Sprintf("%s has a reservation already, at %s", r.Unit, before.place())})
		} else if before := names[r.Name]; before != nil {
			c.fail(item, "reservation", &fault{text: fmt.Sprintf("there is a reservation %q already, at %s", r.Name, before.place()), accepted: "another name = "})
		} else if f := reservationName(r.Name); f != nil {
			c.fail(item, "reservation", &fault{text: fmt.Sprintf("of the unit's name no directory can be made: %q", r.Name), accepted: `name = "…"`})
		}
		if r.Unit != "" {
			units[r.Unit] = item
		}
		names[r.Name] = item
	}
}

func readReservations(n *node) []Reservation {
	var out []Reservation
	for _, item := range n.items() {
		out = append(out, reservation(item))
	}
	return out
}

// layOver merges a layer into the sum of those before it. Unlike other arrays
// reservations add up, so that a package's drop-in takes none away.
func layOver(sum, root *node) *node {
	before, now := sum.at("reservation"), root.at("reservation")
	out := merge(sum, root)
	if before != nil && now != nil {
		tables(out)["reservation"] = &node{
			file: now.file, line: now.line, bad: before.bad || now.bad,
			value: slices.Concat(before.items(), now.items()),
		}
	}
	return out
}
