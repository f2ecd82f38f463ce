package reservations

import (
	"slices"

	"dcm/internal/app/leaseservice"
	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/linux/unitname"
)

// toMake returns the entry of a reservation whose unit creates its partition.
func toMake(r config.Reservation) runstate.Reservation {
	return runstate.Reservation{Name: r.Name, Unit: r.Unit, Make: r.Make, Partitions: []string{}, Devices: r.Devices, Asks: r.Asks()}
}

// addMade sets the partitions of the reservations whose units create them. It returns the nodes by the name of
// the directory below /dev/dcm, and those of other devices.
func (s Publisher) addMade(all []runstate.Reservation, parts []runstate.Part) (nodes, others map[string][]string, err error) {
	nodes, others = make(map[string][]string), make(map[string][]string)
	if !slices.ContainsFunc(all, func(r runstate.Reservation) bool { return r.Make != "" }) {
		return nodes, others, nil
	}
	claims, err := host.Claims(s.Host).List()
	ofUnit := func(unit string) int {
		return unitname.IndexFor(unit, len(all), func(i int) string { return all[i].Unit })
	}
	for i := range all {
		r := &all[i]
		if r.Make == "" {
			continue
		}
		r.Partitions, r.Reason = []string{}, r.Make+" is created when the unit starts"
		for _, n := range claims {
			at := slices.IndexFunc(parts, func(p runstate.Part) bool { return p.GPU == n.GPU && p.Index == n.Start })
			if ofUnit(n.Lease) != i || n.Profile != r.Make || at < 0 {
				continue
			}
			r.Partitions, r.Reason = append(r.Partitions, parts[at].Name), r.Make+" was created when the unit started"
			dir := unitname.MadeDir(r.Name, r.Unit, n.Lease)
			nodes[dir], others[dir] = []string{parts[at].Render}, s.otherDevices(*r)
		}
	}
	return nodes, others, err
}

// otherDevices returns the nodes of other devices that the unit of a reservation may open.
func (s Publisher) otherDevices(r runstate.Reservation) []string {
	nodes, refused := leaseservice.OtherDevices(s.Host, r.Devices)
	for _, text := range refused {
		s.Log.Warn("reservation "+r.Name+": "+text, "reservation", r.Name, "unit", r.Unit)
	}
	return nodes
}

// companionLinks returns the links to the companion nodes of partitions, and to other devices.
func companionLinks(parts []runstate.Part, nodes, others map[string][]string) map[string][]string {
	out := make(map[string][]string)
	for name, own := range nodes {
		if also := slices.Concat(sharedNodes(parts, own), others[name]); len(also) > 0 {
			out[name+unitname.CompanionSuffix] = also
		}
	}
	return out
}
