package lease

import (
	"errors"
	"slices"

	"dcm/internal/engine/runstate"
	"dcm/internal/leases/placement"
)

// Reservation is what one unit is to have.
type Reservation struct {
	Name string
	placement.Want
}

// Grant is what a reservation has.
type Grant struct {
	Partitions []string // by name; none where it could not be met
	Nodes      []string // their own device nodes, in the same order
	Reason     string   // why these, or why none
}

// Reserve chooses for all reservations together. now is the nodes that each has, leased the nodes
// of leases, which stay with the leases. If not all reservations can be met, it meets those that
// come first, each as if it and those before it were all: no partition is kept back for a
// reservation that cannot be met. The error says why.
func Reserve(parts []runstate.Part, list []Reservation, now map[string][]string, leased []string) (map[string]Grant, error) {
	wants := make([]placement.Reservation, len(list))
	for i, r := range list {
		wants[i] = placement.Reservation{Name: r.Name, Want: r.Want, Now: namesOf(parts, now[r.Name])}
	}
	taken := make(map[string]bool)
	for _, name := range namesOf(parts, leased) {
		taken[name] = true
	}
	out := make(map[string]Grant)
	choices, err := placement.Assign(parts, taken, wants)
	if err != nil {
		var met []placement.Reservation
		for i, w := range wants {
			if some, lack := placement.Assign(parts, taken, append(slices.Clip(met), w)); lack == nil {
				met, choices = append(met, w), some
			} else {
				out[list[i].Name] = Grant{Reason: lack.Error()}
			}
		}
	}
	for name, c := range choices {
		g := Grant{Reason: c.Reason}
		for _, p := range c.Partitions {
			g.Partitions = append(g.Partitions, p.Name)
			g.Nodes = append(g.Nodes, p.Render)
		}
		out[name] = g
	}
	return out, err
}

// namesOf returns the names of the partitions with these device nodes.
func namesOf(parts []runstate.Part, nodes []string) []string {
	var out []string
	for _, p := range parts {
		if slices.Contains(nodes, p.Render) {
			out = append(out, p.Name)
		}
	}
	return out
}

// Fit returns why a node with these partitions could not meet all reservations, before it has them.
func Fit(parts []runstate.Part, list []Reservation) error {
	wants := make([]placement.Reservation, len(list))
	for i, r := range list {
		wants[i] = placement.Reservation{Name: r.Name, Want: r.Want}
	}
	_, err := placement.Assign(parts, nil, wants)
	var together *placement.TogetherError
	if errors.As(err, &together) {
		return together
	}
	return err
}
