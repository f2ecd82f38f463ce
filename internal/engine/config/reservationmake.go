package config

import (
	"fmt"

	"dcm/internal/engine/config/rule"
	"dcm/internal/engine/config/source"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/unitname"
)

// madeProfile checks the profile of an instance that is created on demand.
func madeProfile(profile string) *source.Fault {
	if _, err := partition.ParseMade(profile); err != nil {
		return &source.Fault{Text: err.Error(), Accepted: "a MIG profile, such as 2g.20gb"}
	}
	return nil
}

// maxMakerUnit limits the name of a unit, in bytes, which is part of the name of dcm-make@ and of a file.
const maxMakerUnit = 200

// makes checks the keys of a reservation whose instance is created on demand.
func makes(c *rule.Checker, key string, n *source.Node) {
	for _, other := range []string{"partitions", "place", "exclusive", "share", "vendor", "mode"} {
		if v := n.At(other); v != nil {
			c.Fail(v, source.DottedKey(key, other), &source.Fault{Text: "cannot be combined with make", Accepted: "make, which is for one instance of the unit, or partitions"})
		}
	}
	unit, named := n.At("unit").Text()
	switch {
	case n.At("unit") == nil:
		c.Fail(n.At("make"), source.DottedKey(key, "make"), &source.Fault{Text: "unit is missing: its start creates the instance", Accepted: `unit = "vllm.service", or a template, unit = "vllm@.service"`})
	case named && len(unit) > maxMakerUnit:
		c.Fail(n.At("unit"), source.DottedKey(key, "unit"), &source.Fault{Text: "the name is too long for make", Accepted: fmt.Sprintf("a name of at most %d bytes", maxMakerUnit)})
	}
}

// MakesFor returns the reservation that creates instances for the unit, which can be an instance of a
// template. A reservation of that unit itself comes before one of its template.
func MakesFor(list []Reservation, unit string) (Reservation, bool) {
	i := unitname.IndexFor(unit, len(list), func(i int) string { return list[i].Unit })
	if i < 0 {
		return Reservation{}, false
	}
	return list[i], list[i].Make != ""
}
