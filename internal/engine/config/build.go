package config

import (
	"slices"
	"time"

	"dcm/internal/engine/config/rule"
	"dcm/internal/engine/config/source"
	"dcm/internal/gpu/partition"
)

// build returns the configuration of a checked document.
func build(root *source.Node) *Config {
	c := Defaults()
	for name, n := range source.Children(root.At("profiles")) {
		c.Profiles[name] = profile(name, n)
		c.Origin[name] = n.Place()
		c.Dynamic = append(c.Dynamic, dynamicPlaces(name, n)...)
	}
	slices.Sort(c.Dynamic)
	c.Clients = rule.ReadUnits(root.At("clients", "units"))
	rule.Read(root.At("clients", "require"), &c.Require)
	rule.ReadString(root.At("clients", "discover"), &c.Discover)
	rule.ReadString(root.At("apply", "on-failure"), &c.OnFailure)
	rule.ReadString(root.At("apply", "unit-of-change"), &c.UnitOfChange)
	rule.Read(root.At("apply", "reload-driver"), &c.ReloadDriver)
	rule.Read(root.At("apply", "at-load"), &c.AtLoad)
	rule.ReadString(root.At("apply", "reboot"), &c.Reboot)
	rule.ReadString(root.At("daemon", "drift"), &c.Drift)
	rule.ReadString(root.At("gpu", "backend"), &c.Backend)
	rule.Read(root.At("gpu", "library"), &c.Library)
	rule.ReadInt(root.At("gpu", "count"), &c.Count)
	rule.Read(root.At("metrics", "textfile"), &c.Metrics)
	rule.Read(root.At("agent", "enabled"), &c.Agent)
	var confined []Reservation
	c.DeclaredClients, confined = readClients(root.At("client"))
	c.Reservations = append(readReservations(root.At("reservation")), confined...)
	c.UserReservations = readUserReservations(root.At("reservation"))
	c.Observers = rule.ReadUnits(root.At("guard", "observers"))
	c.Leases = readLeases(root.At("leases"))
	c.Budgets = readBudgets(root.At("budget"))
	if n := root.At("apply", "settle-time"); n != nil {
		c.SettleTime = readTime(n)
	}
	if n := root.At("apply", "device-timeout"); n != nil {
		c.DeviceTimeout, _ = time.ParseDuration(n.Value.(string))
	}
	return c
}

// dynamicPlaces returns where groups of a profile are dynamic: "FILE:LINE: KEY".
func dynamicPlaces(name string, n *source.Node) (out []string) {
	for _, item := range n.At("group").Items() {
		if d := item.At("dynamic"); d != nil && d.Value == true {
			out = append(out, d.Place()+": "+source.DottedKey("profiles", name)+".group.dynamic")
		}
	}
	return out
}

func profile(name string, n *source.Node) partition.Profile {
	p := partition.Profile{Name: name, Skip: rule.ReadSelectors(n.At("skip")), MIG: rule.ReadMIG(n.At("mig"))}
	rule.ReadString(n.At("compute"), &p.Compute)
	rule.ReadString(n.At("memory"), &p.Memory)
	p.Settings = gpuSettings(n)
	for _, item := range n.At("group").Items() {
		g := partition.Group{GPUs: rule.ReadSelectors(item.At("gpus")), MIG: rule.ReadMIG(item.At("mig")), Devices: rule.ReadDevices(item.At("device"))}
		rule.ReadString(item.At("compute"), &g.Compute)
		g.Settings = gpuSettings(item)
		rule.Read(item.At("dynamic"), &g.Dynamic)
		if number := item.At("count"); number != nil {
			n, _ := number.Value.(int64)
			g.Count, g.Rest = int(n), number.Value == rule.Rest
		}
		p.Groups = append(p.Groups, g)
	}
	return p
}

// gpuSettings returns the settings of a profile or a group.
func gpuSettings(n *source.Node) (s partition.Settings) {
	rule.ReadString(n.At("memory-allocation"), &s.Allocation)
	if isolation := n.At("isolation"); isolation != nil {
		s.Isolation = partition.IsolationOf(isolation.Value == true)
	}
	return s
}
