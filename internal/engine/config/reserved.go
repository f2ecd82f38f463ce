package config

import (
	"regexp"
	"slices"
	"strings"

	"dcm/internal/engine/config/rule"
	"dcm/internal/engine/config/source"
	"dcm/internal/sanitize"
)

// Reservations reads the reservations on their own, so that a mistake elsewhere in the
// files lets no reserved unit start without its drop-in: of a file that is not TOML
// each [[reservation]] is read for itself. One that is wrong but names its unit is
// among them as Broken: the unit had better not start than start with everything.
// lost names, as far as that can be told, those that cannot be read even so.
func Reservations(p Paths) (all []Reservation, lost []string) {
	layers, _ := p.layers()
	c := &rule.Checker{Root: schema()}
	sum := &source.Node{Value: []*source.Node(nil)}
	for _, l := range layers {
		sum.Value = slices.Concat(sum.Items(), reservationsIn(l))
	}
	reservations().Check(c, "reservation", sum)
	checkReservations(c, sum)
	for _, n := range sum.Items() {
		if !n.Broken() {
			all = append(all, reservation(n))
		} else if name, ok := n.At("unit").Text(); ok && reservedUnit(name) == nil {
			full, _ := rule.ParseUnit(name)
			all = append(all, Reservation{Name: nameOf(full), Unit: full, Source: n.Place(), Broken: true})
		} else {
			lost = append(lost, unitIn(n))
		}
	}
	return all, append(lost, lostIn(layers)...)
}

// reservationsIn returns those of a layer that are TOML.
func reservationsIn(l layer) []*source.Node {
	root, broken := source.ParseTOML(l.file, l.text)
	if broken == nil {
		return root.At("reservation").Items()
	}
	var out []*source.Node
	for _, block := range blocks(l.text) {
		if root, broken := source.ParseTOML(l.file, block); broken == nil {
			out = append(out, root.At("reservation").Items()...)
		}
	}
	return out
}

// lostIn names the units of what is not even TOML by itself.
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

// blocks cuts the [[reservation]] tables out of a file, each on the lines that it is
// on in the file.
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
			inside = m[1] == "reservation"
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

// unitOf is what a broken reservation seems to be for.
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
