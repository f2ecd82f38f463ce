package config

import (
	"regexp"
	"slices"
	"strings"

	"dcm/internal/sanitize"
)

// Reservations reads the reservations on their own, so that a mistake elsewhere in the
// files lets no reserved unit start without its drop-in: of a file that is not TOML
// each [[reservation]] is read for itself. One that is wrong but names its unit is
// among them as Broken: the unit had better not start than start with everything.
// lost names, as far as that can be told, those that cannot be read even so.
func Reservations(p Paths) (all []Reservation, lost []string) {
	layers, _ := p.layers()
	c := &checker{root: schema()}
	sum := &node{value: []*node(nil)}
	for _, l := range layers {
		sum.value = slices.Concat(sum.items(), reservationsIn(l))
	}
	reservations().judge(c, "reservation", sum)
	checkReservations(c, sum)
	for _, n := range sum.items() {
		if !n.broken() {
			all = append(all, reservation(n))
		} else if name, ok := n.at("unit").text(); ok && reservedUnit(name) == nil {
			full, _ := unit(name)
			all = append(all, Reservation{Name: nameOf(full), Unit: full, Source: n.place(), Broken: true})
		} else {
			lost = append(lost, unitIn(n))
		}
	}
	return all, append(lost, lostIn(layers)...)
}

// reservationsIn returns those of a layer that are TOML.
func reservationsIn(l layer) []*node {
	root, broken := parseTOML(l.file, l.text)
	if broken == nil {
		return root.at("reservation").items()
	}
	var out []*node
	for _, block := range blocks(l.text) {
		if root, broken := parseTOML(l.file, block); broken == nil {
			out = append(out, root.at("reservation").items()...)
		}
	}
	return out
}

// lostIn names the units of what is not even TOML by itself.
func lostIn(layers []layer) []string {
	var out []string
	for _, l := range layers {
		if _, broken := parseTOML(l.file, l.text); broken == nil {
			continue
		}
		for _, block := range blocks(l.text) {
			if _, broken := parseTOML(l.file, block); broken != nil {
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
	return "a unit that cannot be told"
}

func unitIn(n *node) string {
	for _, key := range []string{"unit", "name"} {
		if s, ok := n.at(key).text(); ok {
			return sanitize.Text(s)
		}
	}
	return "a unit that cannot be told"
}
