package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"dcm/internal/engine/config/rule"
	"dcm/internal/engine/config/source"
)

// Leases are the limits of leases. They do not apply to root.
type Leases struct {
	PerUser      int           // maximum number of partitions of a user; 0 for no limit
	SlotsPerUser int           // maximum number of memory slots and XCCs of dynamic GPUs that a user has by dcm run --make; 0 for no limit
	IdleTime     time.Duration // how long a GPU keeps the compute mode of leases after the end of the last one
	DwellTime    time.Duration // minimum time between two switches of a GPU for leases
	Shares       int           // maximum number of leases that share a partition
	DefaultTime  time.Duration // duration of a lease if none is requested; 0 for no limit
	MaxTime      time.Duration // maximum duration of a lease; 0 for no limit
	HeldMemory   HeldMemory    // what is done with GPUs with memory that no process holds
	Clean        Cleaning      // whether a partition is cleaned between two holders
	Devices      []string      // patterns of other device nodes that leases may open
	Groups       []GroupLimits // by name
}

// Cleaning is whether the registers and local memories of a partition's compute units are cleared after its users.
type Cleaning string

// The values of clean, the default first.
const (
	CleanIfSupported Cleaning = "true"     // leases take a partition whose cleaning failed last
	NoCleaning       Cleaning = "false"    //
	CleanRequired    Cleaning = "required" // leases take no partition that was not cleaned, or cannot be
)

// HeldMemory is what is done with GPUs that have memory in use that no process holds.
type HeldMemory string

// The values of held-memory, the default first.
const (
	LastHeldMemory   HeldMemory = "last"   // leases and reservations take them last
	RefuseHeldMemory HeldMemory = "refuse" // leases do not take them, reservations take them last
	IgnoreHeldMemory HeldMemory = "ignore" // they are like other GPUs
)

// GroupLimits are limits for the members of a group, in addition to those for all users.
type GroupLimits struct {
	Name    string        // or number
	PerUser int           // maximum number of partitions of a member; 0 for no limit
	Total   int           // maximum number of partitions of all members together; 0 for no limit
	MaxTime time.Duration // maximum duration of a member's lease; 0 for no limit
	Devices []string      // patterns of device nodes that the leases of members may open too
}

// DevicesFor returns the patterns of other device nodes that the leases of a member of these groups may open.
func (l Leases) DevicesFor(groups []string) []string {
	out := slices.Clone(l.Devices)
	for _, g := range l.Groups {
		if slices.Contains(groups, g.Name) {
			out = append(out, g.Devices...)
		}
	}
	return out
}

// leaseTimeLimit is the largest configurable duration of a lease.
const leaseTimeLimit = 365 * 24 * time.Hour

// The defaults of idle-time and dwell-time.
const (
	defaultIdleTimeout   = 5 * time.Minute
	defaultDwellInterval = time.Minute
)

func leases() rule.Rule {
	return rule.Table(map[string]rule.Rule{
		"max-per-user":       rule.Scalar("an integer", rule.Between(0, maxPartitions)),
		"max-slots-per-user": rule.Scalar("an integer", rule.Between(0, maxPartitions)),
		"idle-time":          switchTime(),
		"dwell-time":         switchTime(),
		"shares":             rule.Scalar("an integer", rule.Between(1, maxShares)),
		"default-time":       leaseTime(),
		"max-time":           leaseTime(),
		"held-memory":        rule.OneOf("a known value", LastHeldMemory, RefuseHeldMemory, IgnoreHeldMemory),
		"clean":              cleaning(),
		"devices":            leaseDevices(),
		"groups": rule.Tables(groupName, rule.Table(map[string]rule.Rule{
			"max-per-user": rule.Scalar("an integer", rule.Between(0, maxPartitions)),
			"max-total":    rule.Scalar("an integer", rule.Between(0, maxPartitions)),
			"max-time":     leaseTime(),
			"devices":      leaseDevices(),
		}, nil)),
	}, leaseTimes)
}

// cleaning is the rule of a Boolean that has a third value.
func cleaning() rule.Rule {
	fault := &source.Fault{Text: "not a known value", Accepted: `true, false or "required"`}
	return rule.Rule{Check: func(c *rule.Checker, key string, n *source.Node) {
		switch v := n.Value.(type) {
		case bool:
		case string:
			if v != string(CleanRequired) {
				c.Fail(n, key, fault)
			}
		default:
			c.Fail(n, key, fault)
		}
	}}
}

// leaseTime is the rule of a duration of leases.
func leaseTime() rule.Rule {
	return rule.Duration(func(d time.Duration) bool { return d == 0 || d >= time.Second && d <= leaseTimeLimit },
		`a duration from 1s to 8760h, such as "30m" or "8h", or "0" for no limit`, "h")
}

// switchTime is the rule of a time between two switches of a GPU.
func switchTime() rule.Rule {
	return rule.Duration(func(d time.Duration) bool { return d >= 0 && d <= 24*time.Hour }, `a duration from "0s" to "24h", such as "5m"`, "m")
}

// leaseTimes checks that default-time is not longer than max-time.
func leaseTimes(c *rule.Checker, key string, n *source.Node) {
	usual, most := n.At("default-time"), n.At("max-time")
	if usual == nil || most == nil || usual.Bad || most.Bad {
		return
	}
	if readTime(most) > 0 && readTime(usual) > readTime(most) {
		text, _ := most.Text()
		c.Fail(usual, source.DottedKey(key, "default-time"), &source.Fault{Text: "longer than max-time", Accepted: fmt.Sprintf("at most %q", text)})
	}
}

// groupName checks the name of a group, as useradd(8) accepts it, or its number.
func groupName(name string) *source.Fault {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-@\\ "
	if name != "" && len(name) <= 64 && strings.Trim(name, letters) == "" && !strings.HasPrefix(name, "-") && strings.TrimSpace(name) == name {
		return nil
	}
	return &source.Fault{Text: "not a valid group name", Accepted: "a group's name or number, such as course or 1005"}
}

// readTime reads a checked duration; 0 for none.
func readTime(n *source.Node) time.Duration {
	text, _ := n.Text()
	d, _ := time.ParseDuration(text)
	return d
}

func readLeases(n *source.Node) Leases {
	l := Defaults().Leases
	l.DefaultTime, l.MaxTime = readTime(n.At("default-time")), readTime(n.At("max-time"))
	rule.ReadString(n.At("held-memory"), &l.HeldMemory)
	if clean := n.At("clean"); clean != nil {
		l.Clean = Cleaning(fmt.Sprint(clean.Value))
	}
	l.Devices = readDevices(n.At("devices"))
	if idle := n.At("idle-time"); idle != nil {
		l.IdleTime = readTime(idle)
	}
	if dwell := n.At("dwell-time"); dwell != nil {
		l.DwellTime = readTime(dwell)
	}
	rule.ReadInt(n.At("max-per-user"), &l.PerUser)
	rule.ReadInt(n.At("max-slots-per-user"), &l.SlotsPerUser)
	rule.ReadInt(n.At("shares"), &l.Shares)
	groups := source.Children(n.At("groups"))
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		g := GroupLimits{Name: name, MaxTime: readTime(groups[name].At("max-time")), Devices: readDevices(groups[name].At("devices"))}
		rule.ReadInt(groups[name].At("max-per-user"), &g.PerUser)
		rule.ReadInt(groups[name].At("max-total"), &g.Total)
		l.Groups = append(l.Groups, g)
	}
	return l
}

// text returns the value as it is in a file.
func (c Cleaning) text() string {
	if c == CleanRequired {
		return source.Quote(string(c))
	}
	return string(c)
}

// format writes the tables of a dcm.toml.
func (l Leases) format(b *strings.Builder) {
	d := Defaults().Leases
	section(b, "leases",
		pair{"max-per-user", strconv.Itoa(l.PerUser), l.PerUser != d.PerUser},
		pair{"max-slots-per-user", strconv.Itoa(l.SlotsPerUser), l.SlotsPerUser != d.SlotsPerUser},
		pair{"idle-time", source.Quote(l.IdleTime.String()), l.IdleTime != d.IdleTime},
		pair{"dwell-time", source.Quote(l.DwellTime.String()), l.DwellTime != d.DwellTime},
		pair{"shares", strconv.Itoa(l.Shares), l.Shares != d.Shares},
		pair{"default-time", source.Quote(l.DefaultTime.String()), l.DefaultTime != 0},
		pair{"max-time", source.Quote(l.MaxTime.String()), l.MaxTime != 0},
		pair{"held-memory", source.Quote(string(l.HeldMemory)), l.HeldMemory != d.HeldMemory},
		pair{"clean", l.Clean.text(), l.Clean != d.Clean},
		pair{"devices", source.Array(l.Devices, source.Quote), len(l.Devices) > 0})
	for _, g := range l.Groups {
		fmt.Fprintf(b, "\n[%s]\nmax-per-user = %d\nmax-total = %d\nmax-time = %s\n", source.DottedKey("leases.groups", g.Name), g.PerUser, g.Total, source.Quote(g.MaxTime.String()))
		if len(g.Devices) > 0 {
			fmt.Fprintf(b, "devices = %s\n", source.Array(g.Devices, source.Quote))
		}
	}
}
