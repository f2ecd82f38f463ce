package config

import (
	"time"

	"dcm/internal/gpu/partition"
)

// build reads a tree that has been judged; what could be wrong with it is not
// asked again.
func build(root *node) *Config {
	c := defaults()
	for name, n := range tables(root.at("profiles")) {
		c.Profiles[name] = profile(name, n)
		c.Origin[name] = n.place()
	}
	c.Clients = units(root.at("clients", "units"))
	read(root.at("clients", "require"), &c.Require)
	readAs(root.at("clients", "discover"), &c.Discover)
	readAs(root.at("apply", "on-failure"), &c.OnFailure)
	read(root.at("apply", "reload-driver"), &c.ReloadDriver)
	read(root.at("apply", "at-load"), &c.AtLoad)
	readAs(root.at("apply", "reboot"), &c.Reboot)
	readAs(root.at("daemon", "drift"), &c.Drift)
	readAs(root.at("gpu", "backend"), &c.Backend)
	read(root.at("gpu", "library"), &c.Library)
	readCount(root.at("gpu", "count"), &c.Count)
	read(root.at("metrics", "textfile"), &c.Metrics)
	read(root.at("agent", "enabled"), &c.Agent)
	c.Reservations = readReservations(root.at("reservation"))
	c.Observers = units(root.at("guard", "observers"))
	c.Leases = readLeases(root.at("leases"))
	if n := root.at("apply", "device-timeout"); n != nil {
		c.DeviceTimeout, _ = time.ParseDuration(n.value.(string))
	}
	return c
}

// units normalises the names and drops repetitions.
func units(n *node) []string {
	var all []string
	seen := make(map[string]bool)
	for _, item := range n.items() {
		name, _ := unit(item.value.(string))
		if !seen[name] {
			seen[name] = true
			all = append(all, name)
		}
	}
	return all
}

// read sets what the tree says; what it does not say keeps its default.
func read[T any](n *node, to *T) {
	if n != nil {
		*to = n.value.(T)
	}
}

func readCount(n *node, to *int) {
	if n != nil {
		*to = int(n.value.(int64))
	}
}

func readAs[S ~string](n *node, to *S) {
	if n != nil {
		*to = S(n.value.(string))
	}
}

func profile(name string, n *node) partition.Profile {
	p := partition.Profile{Name: name, Skip: chosen(n.at("skip")), MIG: readMIG(n.at("mig"))}
	readAs(n.at("compute"), &p.Compute)
	readAs(n.at("memory"), &p.Memory)
	for _, item := range n.at("group").items() {
		g := partition.Group{GPUs: chosen(item.at("gpus")), MIG: readMIG(item.at("mig")), Devices: readDevices(item.at("device"))}
		readAs(item.at("compute"), &g.Compute)
		if number := item.at("count"); number != nil {
			n, _ := number.value.(int64)
			g.Count, g.Rest = int(n), number.value == rest
		}
		p.Groups = append(p.Groups, g)
	}
	return p
}

func chosen(n *node) []partition.Selector {
	var all []partition.Selector
	for _, item := range n.items() {
		s, _ := selector(item.value)
		all = append(all, s)
	}
	return all
}
