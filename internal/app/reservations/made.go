package reservations

import (
	"fmt"
	"slices"

	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/linux/unitname"
)

// made returns the reservations whose units create their partitions, with those that exist, and the
// nodes of these by the name of the directory below /dev/dcm.
func (s Publisher) made(parts []runstate.Part) (list []runstate.Reservation, nodes map[string][]string, err error) {
	nodes = make(map[string][]string)
	makes := func(r config.Reservation) bool { return r.Make != "" }
	if !slices.ContainsFunc(s.Reserved, makes) {
		return nil, nodes, nil
	}
	claims, err := host.Claims(s.Host).List()
	for _, r := range s.Reserved {
		if !makes(r) {
			continue
		}
		one := runstate.Reservation{Name: r.Name, Unit: r.Unit, Make: r.Make, Partitions: []string{}, Asks: r.Asks(), Reason: fmt.Sprintf("%s is created when the unit starts", r.Make)}
		for _, n := range claims {
			own, _ := config.MakesFor(s.Reserved, n.Lease)
			at := slices.IndexFunc(parts, func(p runstate.Part) bool { return p.GPU == n.GPU && p.Index == n.Start })
			if own.Name != r.Name || n.Profile != r.Make || at < 0 {
				continue
			}
			one.Partitions = append(one.Partitions, parts[at].Name)
			one.Reason = fmt.Sprintf("%s was created when the unit started", r.Make)
			nodes[unitname.MadeDir(r.Name, r.Unit, n.Lease)] = []string{parts[at].Render}
		}
		list = append(list, one)
	}
	return list, nodes, err
}

// companionLinks returns the links to the companion nodes of partitions.
func companionLinks(parts []runstate.Part, nodes map[string][]string) map[string][]string {
	out := make(map[string][]string)
	for name, own := range nodes {
		if also := sharedNodes(parts, own); len(also) > 0 {
			out[name+unitname.CompanionSuffix] = also
		}
	}
	return out
}
