package config

import (
	"fmt"
	"slices"
	"strings"

	"dcm/internal/engine/config/rule"
	"dcm/internal/engine/config/source"
	"dcm/internal/gpu/partition"
)

// Client is a client of which more than the name is known.
type Client struct {
	Unit     string               // with its suffix
	GPUs     []partition.Selector // the only GPUs that it uses; none: any
	Observer bool                 // it watches all GPUs and works for no other unit
	OnDemand bool                 // it opens GPUs only while it works
	Source   string               // file:line
}

// The values of client.opens.
const (
	opensAlways   = "always"    // soon after its start, until its end
	opensOnDemand = "on-demand" // only while it works
)

// OpensAlways reports whether a client without an open GPU has a problem.
func (c *Config) OpensAlways(unit string) bool {
	return !slices.ContainsFunc(c.DeclaredClients, func(d Client) bool { return d.OnDemand && Lists([]string{d.Unit}, unit) })
}

// UnitOfChange is what succeeds or is rolled back together.
type UnitOfChange string

// The values of apply.unit-of-change.
const (
	Node UnitOfChange = "node" // all GPUs of a change
	GPU  UnitOfChange = "gpu"  // each GPU by itself
)

// PerGPU reports whether a change of single GPUs restarts only the units that it concerns. It does if
// the configuration says so of GPUs or clients.
func (c *Config) PerGPU() bool { return len(c.DeclaredClients) > 0 || c.UnitOfChange == GPU }

func declaredClients() rule.Rule {
	return rule.List(rule.Table(map[string]rule.Rule{
		"unit":     rule.Scalar("a string", rule.Unit),
		"gpus":     rule.Selectors(),
		"observer": rule.Boolean(),
		"opens":    rule.OneOf("a known value", opensAlways, opensOnDemand),
	}, oneClient), nil)
}

func oneClient(c *rule.Checker, key string, n *source.Node) {
	if n.At("unit") == nil {
		c.Fail(n, key, &source.Fault{Text: "unit is missing", Accepted: `unit = "vllm@3.service"`})
		return
	}
	gpus, unit := n.At("gpus"), n.At("unit")
	observer := n.At("observer") != nil && n.At("observer").Value == true
	switch name, ok := unit.Text(); {
	case gpus == nil || gpus.Bad || unit.Bad || !ok:
	case len(gpus.Items()) == 0:
		c.Fail(gpus, source.DottedKey(key, "gpus"), &source.Fault{Text: "the list is empty", Accepted: "the GPUs that the unit uses, or no gpus key for any"})
	case observer:
		c.Fail(gpus, source.DottedKey(key, "gpus"), &source.Fault{Text: "an observer watches all GPUs", Accepted: "gpus or observer = true"})
	case reservedUnit(name) != nil:
		c.Fail(unit, source.DottedKey(key, "unit"), &source.Fault{Text: "only a service can be confined to GPUs", Accepted: "a .service unit, or no gpus key"})
	case strings.Contains(fullName(name), "@."):
		c.Fail(unit, source.DottedKey(key, "unit"), &source.Fault{Text: "a template cannot be confined to GPUs",
			Accepted: "an instance, such as " + strings.Replace(fullName(name), "@.", "@a.", 1)})
	}
}

func fullName(unit string) string {
	full, _ := rule.ParseUnit(unit)
	return full
}

// client reads a checked client.
func client(n *source.Node) Client {
	text, _ := n.At("unit").Text()
	c := Client{Unit: fullName(text), GPUs: rule.ReadSelectors(n.At("gpus")), Source: n.Place()}
	rule.Read(n.At("observer"), &c.Observer)
	opens, _ := n.At("opens").Text()
	c.OnDemand = opens == opensOnDemand
	return c
}

// reservation returns the reservation that confines the client to its GPUs.
func (c Client) reservation() Reservation {
	return Reservation{Name: nameOf(c.Unit), Unit: c.Unit, Whole: true, Place: "pack", GPUs: c.GPUs, Source: c.Source}
}

// format returns the client as a table of a dcm.toml.
func (c Client) format() string {
	text := fmt.Sprintf("[[client]]\nunit = %s\n", source.Quote(c.Unit))
	if len(c.GPUs) > 0 {
		text += fmt.Sprintf("gpus = %s\n", source.Array(c.GPUs, rule.FormatSelector))
	}
	if c.Observer {
		text += "observer = true\n"
	}
	if c.OnDemand {
		text += fmt.Sprintf("opens = %s\n", source.Quote(opensOnDemand))
	}
	return text
}

// readClients returns the declared clients, and the reservations of those with GPUs.
func readClients(n *source.Node) (clients []Client, confined []Reservation) {
	for _, item := range n.Items() {
		c := client(item)
		clients = append(clients, c)
		if len(c.GPUs) > 0 {
			confined = append(confined, c.reservation())
		}
	}
	return clients, confined
}

// checkClients reports units with two [[client]] tables.
func checkClients(c *rule.Checker, n *source.Node) {
	first := make(map[string]*source.Node)
	for _, item := range n.Items() {
		if item.Broken() {
			continue
		}
		unit := client(item).Unit
		if before := first[unit]; before != nil {
			c.Fail(item, "client", &source.Fault{Text: fmt.Sprintf("%s is already declared, at %s", unit, before.Place())})
		}
		first[unit] = item
	}
}
