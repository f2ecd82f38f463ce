package config

import (
	"regexp"
	"slices"
	"strings"

	"dcm/internal/engine/config/rule"
	"dcm/internal/engine/config/source"
	"dcm/internal/sanitize"
)

// Reservations reads the reservations independently of the other settings, so that an error elsewhere
// does not let a reserved unit start without its drop-in. If a file is not valid TOML, each
// [[reservation]] is parsed separately. [[client]] tables with gpus are reservations too. A reservation with errors that names its unit is returned as
// Broken: it is safer that the unit does not start than that it starts with all devices. lost names
// the reservations that cannot be parsed, if possible by their unit.
func Reservations(p Paths) (all []Reservation, lost []string) {
	layers, _ := p.layers()
	c := &rule.Checker{Root: schema()}
	sum, clients := listed(layers, "reservation"), listed(layers, "client")
	sum.Value = forUnits(sum)
	clients.Value = slices.DeleteFunc(clients.Items(), func(n *source.Node) bool { return n.At("gpus") == nil })
	reservations().Check(c, "reservation", sum)
	declaredClients().Check(c, "client", clients)
	checkReservations(c, sum, clients)
	for i, n := range slices.Concat(sum.Items(), clients.Items()) {
		if !n.Broken() {
			if i < len(sum.Items()) {
				all = append(all, reservation(n))
			} else {
				all = append(all, client(n).reservation())
			}
		} else if name, ok := n.At("unit").Text(); ok && reservedUnit(name) == nil {
			full, _ := rule.ParseUnit(name)
			all = append(all, Reservation{Name: nameOf(full), Unit: full, Source: n.Place(), Broken: true})
		} else {
			lost = append(lost, unitIn(n))
		}
	}
	return all, append(lost, lostIn(layers)...)
}

// listed returns the tables of that key in all layers that are valid TOML.
func listed(layers []layer, key string) *source.Node {
	var out []*source.Node
	for _, l := range layers {
		root, broken := source.ParseTOML(l.file, l.text)
		if broken == nil {
			out = append(out, root.At(key).Items()...)
			continue
		}
		for _, block := range blocks(l.text) {
			if root, broken := source.ParseTOML(l.file, block); broken == nil {
				out = append(out, root.At(key).Items()...)
			}
		}
	}
	return &source.Node{Value: out}
}

// lostIn names the units of the reservations that are not valid TOML.
func lostIn(layers []layer) []string {
	var out []string
	for _, l := range layers {
		if _, broken := source.ParseTOML(l.file, l.text); broken == nil {
			continue
		}
		for _, block := range blocks(l.text) {
			if _, broken := source.ParseTOML(l.file, block); broken != nil {
				out = append(out, unitOf(block))
			}
		}
	}
	return out
}

// blocks returns the text of each [[reservation]] and [[client]] table, after as many line ends as there are lines
// before it in the file.
func blocks(text string) []string {
	header := regexp.MustCompile(`^\s*\[\[?\s*["']?([A-Za-z_-]+)`)
	var out []string
	block, inside := "", false
	end := func() {
		if inside {
			out = append(out, block)
		}
		inside = false
	}
	lineEnds := ""
	for line := range strings.Lines(text) {
		if m := header.FindStringSubmatch(line); m != nil {
			end()
			inside = m[1] == "reservation" || m[1] == "client"
			block = lineEnds
		}
		if inside {
			block += line
		}
		lineEnds += "\n"
	}
	end()
	return out
}

// unitOf returns the probable unit of a broken reservation.
func unitOf(block string) string {
	unitLine := regexp.MustCompile(`(?m)^\s*(?:unit|name)\s*=\s*["']?([^"'\n#]*)`)
	if m := unitLine.FindStringSubmatch(block); m != nil && strings.TrimSpace(m[1]) != "" {
		return sanitize.Text(strings.TrimSpace(m[1]))
	}
	return "an unknown unit"
}

func unitIn(n *source.Node) string {
	for _, key := range []string{"unit", "name"} {
		if s, ok := n.At(key).Text(); ok {
			return sanitize.Text(s)
		}
	}
	return "an unknown unit"
}
