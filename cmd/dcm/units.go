package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"dcm/internal/amdgpu"
	"dcm/internal/apply"
	"dcm/internal/config"
	"dcm/internal/report"
)

// holderUnit is a unit whose processes have GPUs open.
type holderUnit struct {
	Unit      string          `json:"unit"` // "" for processes of no unit
	Client    standing        `json:"client"`
	Processes []report.Holder `json:"processes"`
}

// standing says whether a unit is restarted around a change.
type standing string

const (
	listed     standing = "listed"
	discovered standing = "discovered" // as if listed, until the next boot
	possible   standing = "no"         // a service that could be listed
	unfit      standing = "unfit"      // not by itself: a session, a container, a job, an essential service
)

// byUnit groups holders by their unit, in the order in which units come first.
func (h *host) byUnit(cfg *config.Config, holders []report.Holder) []holderUnit {
	out := []holderUnit{}
	for _, p := range holders {
		i := slices.IndexFunc(out, func(u holderUnit) bool { return u.Unit == p.Unit })
		if i < 0 {
			i = len(out)
			out = append(out, holderUnit{Unit: p.Unit, Client: h.standing(cfg, p.Unit)})
		}
		out[i].Processes = append(out[i].Processes, p)
	}
	return out
}

func (h *host) standing(cfg *config.Config, unit string) standing {
	switch {
	case config.Lists(cfg.Clients, unit):
		return listed
	case config.Lists(h.clients(cfg), unit):
		return discovered
	case len(h.fit([]string{unit})) == 1:
		return possible
	}
	return unfit
}

func (h *host) holderUnits(list []report.Holder, asJSON bool) error {
	cfg, err := h.config()
	if err != nil {
		return err
	}
	units := h.byUnit(cfg, list)
	if asJSON {
		return h.answer(units)
	}
	t := newTable(h, h.out, "UNIT", "CLIENT", "PROCESSES", "DEVICES")
	for _, u := range units {
		var processes, devices []string
		for _, p := range u.Processes {
			processes = append(processes, fmt.Sprintf("%s (%d)", p.Command, p.PID))
			devices = append(devices, p.Devices...)
		}
		slices.Sort(devices)
		t.row(orDash(u.Unit), string(u.Client), strings.Join(processes, " "), strings.Join(slices.Compact(devices), " "))
	}
	t.flush()
	return nil
}

// checkUsers names the services that have a GPU open now and are no clients. Only
// root sees everybody's open files, and only on the host itself.
func (h *host) checkUsers(ctx context.Context, cfg *config.Config) {
	if h.root != "/" || os.Geteuid() != 0 || cfg.Discover == config.NoDiscovery {
		return
	}
	found, err := amdgpu.Open(h.roots()).Holders(ctx)
	if err != nil {
		fmt.Fprintln(h.err, h.yellow("dcm: warning: ")+err.Error())
		return
	}
	then := "it would keep the GPUs from being changed"
	if cfg.Discover == config.Include {
		then = "it would be made one at a change, until the next boot"
	}
	for _, u := range h.byUnit(cfg, apply.Holders(found)) {
		if u.Client == possible {
			fmt.Fprintf(h.err, "%s%s has a GPU open and is not listed under [clients]: %s\n", h.yellow("dcm: warning: "), u.Unit, then)
		}
	}
}
