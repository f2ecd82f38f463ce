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
	Partitions []string // names of the partitions; none if the reservation could not be met
	Nodes      []string // their device nodes without companion nodes, in the same order
	Reason     string   // of the choice, or why there is none
}

// Reserve chooses partitions for all reservations together. now contains the present nodes of each
// reservation. leased contains the nodes of leases, which Reserve does not choose. If not all
// reservations can be met, Reserve goes through them in order and meets each one that fits. The error
// then says why the others cannot be met. Their partitions stay free for leases.
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

// Fit returns an error if these partitions, which may not exist yet, are not sufficient for all
// reservations.
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
