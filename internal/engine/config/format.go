package config

import (
	"fmt"
	"strconv"
	"strings"

	"dcm/internal/engine/config/rule"
	"dcm/internal/engine/config/source"
	"dcm/internal/gpu/partition"
)

// Format returns the configuration as one dcm.toml, without values that are the default. [Load] reads
// the same configuration from it.
func Format(c *Config) string {
	var b strings.Builder
	b.WriteString("version = 1\n")
	if c.Selected != "" {
		fmt.Fprintf(&b, "profile = %s\n", source.Quote(c.Selected))
	}
	d := Defaults()
	section(&b, "clients",
		pair{"units", source.Array(c.Clients, source.Quote), len(c.Clients) > 0},
		pair{"require", strconv.FormatBool(c.Require), c.Require != d.Require},
		pair{"discover", source.Quote(string(c.Discover)), c.Discover != d.Discover})
	section(&b, "apply",
		pair{"on-failure", source.Quote(string(c.OnFailure)), c.OnFailure != d.OnFailure},
		pair{"unit-of-change", source.Quote(string(c.UnitOfChange)), c.UnitOfChange != d.UnitOfChange},
		pair{"reload-driver", strconv.FormatBool(c.ReloadDriver), c.ReloadDriver != d.ReloadDriver},
		pair{"at-load", strconv.FormatBool(c.AtLoad), c.AtLoad != d.AtLoad},
		pair{"device-timeout", source.Quote(c.DeviceTimeout.String()), c.DeviceTimeout != d.DeviceTimeout},
		pair{"reboot", source.Quote(string(c.Reboot)), c.Reboot != d.Reboot},
		pair{"settle-time", source.Quote(c.SettleTime.String()), c.SettleTime != d.SettleTime})
	section(&b, "daemon",
		pair{"drift", source.Quote(string(c.Drift)), c.Drift != d.Drift})
	section(&b, "gpu",
		pair{"backend", source.Quote(string(c.Backend)), c.Backend != d.Backend},
		pair{"library", source.Quote(c.Library), c.Library != d.Library},
		pair{"count", strconv.Itoa(c.Count), c.Count != d.Count})
	c.Leases.format(&b)
	section(&b, "guard",
		pair{"observers", source.Array(c.Observers, source.Quote), len(c.Observers) > 0})
	section(&b, "metrics",
		pair{"textfile", source.Quote(c.Metrics), c.Metrics != d.Metrics})
	section(&b, "agent",
		pair{"enabled", strconv.FormatBool(c.Agent), c.Agent != d.Agent})
	for _, client := range c.DeclaredClients {
		b.WriteString("\n" + client.format())
	}
	for _, budget := range c.Budgets {
		b.WriteString("\n" + budget.format())
	}
	for _, r := range c.Reservations {
		if !r.Whole {
			b.WriteString("\n" + r.format())
		}
	}
	for _, r := range c.UserReservations {
		b.WriteString("\n" + r.format())
	}
	for _, name := range c.Names() {
		b.WriteString("\n" + FormatProfile(c.Profiles[name]))
	}
	return b.String()
}

// pair is a key with its value as TOML. It is written only if set is true.
type pair struct {
	key, value string
	set        bool
}

func section(b *strings.Builder, name string, pairs ...pair) {
	head := "\n[" + name + "]\n"
	for _, p := range pairs {
		if p.set {
			b.WriteString(head + p.key + " = " + p.value + "\n")
			head = ""
		}
	}
}

// FormatProfile returns a profile as a table of a dcm.toml.
func FormatProfile(p partition.Profile) string {
	var b strings.Builder
	key := source.DottedKey("profiles", p.Name)
	fmt.Fprintf(&b, "[%s]\n", key)
	if p.Compute != "" {
		fmt.Fprintf(&b, "compute = %s\n", source.Quote(string(p.Compute)))
	}
	if p.Memory != "" {
		fmt.Fprintf(&b, "memory = %s\n", source.Quote(string(p.Memory)))
	}
	b.WriteString(formatSettings(p.Settings))
	if p.MIG != nil {
		fmt.Fprintf(&b, "mig = %s\n", rule.FormatMIG(*p.MIG))
	}
	if len(p.Skip) > 0 {
		fmt.Fprintf(&b, "skip = %s\n", source.Array(p.Skip, rule.FormatSelector))
	}
	for _, g := range p.Groups {
		fmt.Fprintf(&b, "[[%s.group]]\n", key)
		if g.MIG != nil {
			fmt.Fprintf(&b, "mig = %s\n", rule.FormatMIG(*g.MIG))
		} else {
			fmt.Fprintf(&b, "compute = %s\n", source.Quote(string(g.Compute)))
		}
		b.WriteString(formatSettings(g.Settings))
		if len(g.Devices) > 0 {
			fmt.Fprintf(&b, "device = %s\n", source.Array(g.Devices, rule.FormatFilter))
		}
		if g.Dynamic {
			b.WriteString("dynamic = true\n")
		}
		switch {
		case len(g.GPUs) > 0:
			fmt.Fprintf(&b, "gpus = %s\n", source.Array(g.GPUs, rule.FormatSelector))
		case g.Rest:
			fmt.Fprintf(&b, "count = %q\n", rule.Rest)
		default:
			fmt.Fprintf(&b, "count = %d\n", g.Count)
		}
	}
	return b.String()
}

// formatSettings returns the lines of the settings.
func formatSettings(s partition.Settings) string {
	out := ""
	if s.Allocation != "" {
		out = "memory-allocation = " + source.Quote(string(s.Allocation)) + "\n"
	}
	if s.Isolation != "" {
		out += fmt.Sprintf("isolation = %t\n", s.Isolation == partition.Isolated)
	}
	return out
}
