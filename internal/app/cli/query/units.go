package query

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
)

// HolderUnit is a unit whose processes have GPUs open.
type HolderUnit struct {
	Unit      string            `json:"unit"` // "" for processes without a unit
	Client    standing          `json:"client"`
	Processes []runstate.Holder `json:"processes"`
}

// standing is whether a unit is restarted around a change.
type standing string

const (
	listed     standing = "listed"
	discovered standing = "discovered" // as if listed, until the next boot
	possible   standing = "no"         // a service that can be listed
	unfit      standing = "unfit"      // never made a client automatically: a session, container, job or essential service
)

// byUnit groups holders by unit, in the order of the units' first holders.
func byUnit(h *host.Host, cfg *config.Config, holders []runstate.Holder) []HolderUnit {
	out := []HolderUnit{}
	for _, p := range holders {
		i := slices.IndexFunc(out, func(u HolderUnit) bool { return u.Unit == p.Unit })
		if i < 0 {
			i = len(out)
			out = append(out, HolderUnit{Unit: p.Unit, Client: standingOf(h, cfg, p.Unit)})
		}
		out[i].Processes = append(out[i].Processes, p)
	}
	return out
}

func standingOf(h *host.Host, cfg *config.Config, unit string) standing {
	switch {
	case config.Lists(cfg.Clients, unit):
		return listed
	case config.Lists(host.Clients(h, cfg), unit):
		return discovered
	case len(host.DiscoverableUnits(h, []string{unit})) == 1:
		return possible
	}
	return unfit
}

func holderUnits(h *host.Host, con *console.Console, list []runstate.Holder, asJSON bool) error {
	cfg, err := h.Config()
	if err != nil {
		return err
	}
	units := byUnit(h, cfg, list)
	if asJSON {
		return con.Answer(units)
	}
	t := con.NewTable("UNIT", "CLIENT", "PROCESSES", "DEVICES")
	for _, u := range units {
		var processes, devices []string
		for _, p := range u.Processes {
			processes = append(processes, fmt.Sprintf("%s (%d)", p.Command, p.PID))
			devices = append(devices, p.Devices...)
		}
		slices.Sort(devices)
		t.Row(console.OrDash(u.Unit), string(u.Client), strings.Join(processes, " "), console.OrDash(strings.Join(slices.Compact(devices), " ")))
	}
	t.Flush()
	return nil
}

// Unrestarted returns what has a GPU open and is not restarted around a change: services that
// could be clients, and processes without a unit. Only root sees the open files of all users;
// for others, and for an installation in a directory, there are none. It returns what it found
// also with an error.
func Unrestarted(ctx context.Context, h *host.Host, cfg *config.Config) (services []string, processes []runstate.Holder, err error) {
	if !h.Here() || os.Geteuid() != 0 {
		return nil, nil, nil
	}
	found, err := host.Holders(ctx, h)
	for _, u := range byUnit(h, cfg, found) {
		switch {
		case u.Unit == "":
			processes = u.Processes
		case u.Client == possible && cfg.Discover != config.NoDiscovery:
			services = append(services, u.Unit)
		}
	}
	return services, processes, err
}
