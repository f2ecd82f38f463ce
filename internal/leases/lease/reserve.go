package lease

import (
	"errors"
	"slices"

	"dcm/internal/engine/runstate"
	"dcm/internal/leases/placement"
)

// Reservation is a reservation of the configuration.
type Reservation struct {
	Name string
	placement.Want
}

// Grant is the result for a reservation.
type Grant struct {
	Partitions []string // by name; none if it could not be met
	Nodes      []string // their own device nodes, in the same order
	Reason     string   // of the choice, or why there is none
}

// Reserve chooses partitions for all reservations together. now has the present nodes of each
// reservation, leased the nodes in leases, which are not chosen. If not all reservations can be met,
// the error says why, and Reserve meets as many as possible in their order. It keeps no partition
// back for a reservation that cannot be met.
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

// Fit returns why these partitions, which may not exist yet, are not sufficient for all reservations.
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
