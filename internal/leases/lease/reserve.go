package lease

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"dcm/internal/engine/runstate"
	"dcm/internal/leases/placement"
)

// Reservation is a reservation of the configuration.
type Reservation struct {
	Name string
	placement.Want
	Kept  bool // its unit continues with its present partitions
	Whole bool // all partitions of the GPUs in Among, which other Whole reservations may have too
}

// Grant is the result for a reservation.
type Grant struct {
	Partitions []string // names of the partitions; none if the reservation could not be met
	Nodes      []string // their device nodes without companion nodes, in the same order
	Reason     string   // of the choice, or why there is none
}

// Reserve is [Cleaning.Reserve] for partitions that were all cleaned.
func Reserve(parts []runstate.Part, list []Reservation, now map[string][]string, leased []string) (map[string]Grant, error) {
	return Cleaning{}.Reserve(parts, list, now, leased)
}

// Reserve chooses partitions for all reservations together. It takes partitions whose cleaning failed last. now contains the present nodes of each
// reservation. leased contains the nodes of leases, which Reserve does not choose. If not all
// reservations can be met, Reserve goes through them in order and meets each one that fits. The error
// then says why the others cannot be met. Their partitions stay free for leases.
func (c Cleaning) Reserve(parts []runstate.Part, list []Reservation, now map[string][]string, leased []string) (map[string]Grant, error) {
	taken := make(map[string]bool)
	for _, name := range namesOf(parts, leased) {
		taken[name] = true
	}
	out, open, err := settle(parts, list, now, taken)
	var wants []placement.Reservation
	for _, r := range open {
		wants = append(wants, placement.Reservation{Name: r.Name, Want: r.Want, Now: namesOf(parts, now[r.Name])})
	}
	choices, unmet := c.assign(parts, taken, wants)
	if unmet != nil {
		err = errors.Join(err, unmet)
		var met []placement.Reservation
		for _, w := range wants {
			if some, lack := c.assign(parts, taken, append(slices.Clip(met), w)); lack == nil {
				met, choices = append(met, w), some
			} else {
				out[w.Name] = Grant{Reason: lack.Error()}
			}
		}
	}
	for name, c := range choices {
		out[name] = grantOf(c.Partitions, c.Reason)
	}
	return out, err
}

// settle meets the reservations for which there is nothing to choose: those of units that continue, and
// then Whole ones. It takes their partitions from the others, and returns the others.
func settle(parts []runstate.Part, list []Reservation, now map[string][]string, taken map[string]bool) (out map[string]Grant, open []Reservation, err error) {
	out = make(map[string]Grant)
	shared := make(map[string]bool) // by Whole reservations
	var whole []Reservation
	for _, r := range list {
		nodes := now[r.Name]
		switch {
		case r.Kept && len(nodes) > 0 && len(namesOf(parts, nodes)) == len(nodes):
			out[r.Name] = grantOf(partsWith(parts, nodes), "its unit continues with them")
			own := taken
			if r.Whole {
				own = shared
			}
			add(own, out[r.Name])
		case r.Whole:
			whole = append(whole, r)
		default:
			open = append(open, r)
		}
	}
	for _, r := range whole {
		g := grantOf(slices.DeleteFunc(slices.Clone(parts), func(p runstate.Part) bool { return taken[p.Name] || !slices.Contains(r.Among, p.GPU) }), "all partitions of its GPUs")
		if len(g.Partitions) == 0 {
			g.Reason = "its GPUs have no free partition"
			err = errors.Join(err, fmt.Errorf("reservation %s: %s", r.Name, g.Reason))
		}
		out[r.Name] = g
		add(shared, g)
	}
	maps.Copy(taken, shared)
	return out, open, err
}

// add adds the partitions of a grant to a set.
func add(set map[string]bool, g Grant) {
	for _, name := range g.Partitions {
		set[name] = true
	}
}

func grantOf(parts []runstate.Part, reason string) Grant {
	g := Grant{Reason: reason}
	for _, p := range parts {
		g.Partitions, g.Nodes = append(g.Partitions, p.Name), append(g.Nodes, p.Render)
	}
	return g
}

// namesOf returns the names of the partitions with these device nodes.
func namesOf(parts []runstate.Part, nodes []string) []string {
	return grantOf(partsWith(parts, nodes), "").Partitions
}

// partsWith returns the partitions with these device nodes, in the order of the nodes.
func partsWith(parts []runstate.Part, nodes []string) []runstate.Part {
	var out []runstate.Part
	for _, node := range nodes {
		if i := slices.IndexFunc(parts, func(p runstate.Part) bool { return p.Render == node }); i >= 0 {
			out = append(out, parts[i])
		}
	}
	return out
}

// Fit returns an error if these partitions, which may not exist yet, are not sufficient for all
// reservations.
func Fit(parts []runstate.Part, list []Reservation) error {
	taken := make(map[string]bool)
	_, open, err := settle(parts, list, nil, taken)
	if err != nil {
		return err
	}
	wants := make([]placement.Reservation, len(open))
	for i, r := range open {
		wants[i] = placement.Reservation{Name: r.Name, Want: r.Want}
	}
	_, err = placement.Assign(parts, taken, wants)
	var together *placement.TogetherError
	if errors.As(err, &together) {
		return together
	}
	return err
}
