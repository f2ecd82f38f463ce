package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Leases is what users may have at run time. None of its limits applies to root.
type Leases struct {
	PerUser     int           // partitions that one user may have; 0 for no limit
	Shares      int           // leases that may share one partition
	DefaultTime time.Duration // of a lease for which no time is requested; 0 for no limit
	MaxTime     time.Duration // that a lease may last; 0 for no limit
	Groups      []GroupLimits // by name
}

// GroupLimits are limits for the members of a group, in addition to those for all users.
type GroupLimits struct {
	Name    string        // or number
	PerUser int           // partitions that one member may have; 0 for no limit
	Total   int           // partitions that all members together may have; 0 for no limit
	MaxTime time.Duration // that a member's lease may last; 0 for no limit
}

// longestLease is the longest time limit of a lease.
const longestLease = 365 * 24 * time.Hour

func leases() rule {
	return fixed(map[string]rule{
		"max-per-user": scalar("an integer", between(0, mostPartitions)),
		"shares":       scalar("an integer", between(1, mostShares)),
		"default-time": leaseTime(),
		"max-time":     leaseTime(),
		"groups": named(groupName, fixed(map[string]rule{
			"max-per-user": scalar("an integer", between(0, mostPartitions)),
			"max-total":    scalar("an integer", between(0, mostPartitions)),
			"max-time":     leaseTime(),
		}, nil)),
	}, leaseTimes)
}

// leaseTime is a time limit of leases.
func leaseTime() rule {
	return duration(func(d time.Duration) bool { return d == 0 || d >= time.Second && d <= longestLease },
		`a duration from 1s to 8760h, such as "30m" or "8h", or "0" for no limit`, "h")
}

// leaseTimes refuses a default that no lease could have.
func leaseTimes(c *checker, key string, n *node) {
	usual, most := n.at("default-time"), n.at("max-time")
	if usual == nil || most == nil || usual.bad || most.bad {
		return
	}
	if readTime(most) > 0 && readTime(usual) > readTime(most) {
		text, _ := most.text()
		c.fail(usual, dotted(key, "default-time"), &fault{text: "longer than max-time", accepted: fmt.Sprintf("at most %q", text)})
	}
}

// groupName is the name of a group, as useradd(8) accepts it, or its number.
func groupName(name string) *fault {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-@\\ "
	if name != "" && len(name) <= 64 && strings.Trim(name, letters) == "" && !strings.HasPrefix(name, "-") && strings.TrimSpace(name) == name {
		return nil
	}
	return &fault{text: "not a name for a group", accepted: "a group's name or number, such as course or 1005"}
}

// readTime reads a duration that has been judged; 0 for none.
func readTime(n *node) time.Duration {
	text, _ := n.text()
	d, _ := time.ParseDuration(text)
	return d
}

func readLeases(n *node) Leases {
	l := Leases{Shares: 1, DefaultTime: readTime(n.at("default-time")), MaxTime: readTime(n.at("max-time"))}
	readCount(n.at("max-per-user"), &l.PerUser)
	readCount(n.at("shares"), &l.Shares)
	groups := tables(n.at("groups"))
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		g := GroupLimits{Name: name, MaxTime: readTime(groups[name].at("max-time"))}
		readCount(groups[name].at("max-per-user"), &g.PerUser)
		readCount(groups[name].at("max-total"), &g.Total)
		l.Groups = append(l.Groups, g)
	}
	return l
}

// format writes the tables of a dcm.toml.
func (l Leases) format(b *strings.Builder) {
	d := defaults().Leases
	section(b, "leases",
		pair{"max-per-user", strconv.Itoa(l.PerUser), l.PerUser != d.PerUser},
		pair{"shares", strconv.Itoa(l.Shares), l.Shares != d.Shares},
		pair{"default-time", quote(l.DefaultTime.String()), l.DefaultTime != 0},
		pair{"max-time", quote(l.MaxTime.String()), l.MaxTime != 0})
	for _, g := range l.Groups {
		fmt.Fprintf(b, "\n[%s]\nmax-per-user = %d\nmax-total = %d\nmax-time = %s\n", dotted("leases.groups", g.Name), g.PerUser, g.Total, quote(g.MaxTime.String()))
	}
}
