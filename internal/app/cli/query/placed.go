package query

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/status"
	"dcm/internal/text"
)

// PlacedHolder is a process that has a GPU open, with the GPUs and partitions of its devices.
type PlacedHolder struct {
	runstate.Holder
	User       string   `json:"user"`       // "" if the process has ended
	GPUs       []string `json:"gpus"`       // addresses; empty if only a node of all GPUs is open
	Partitions []string `json:"partitions"` // empty if the GPU's partition is unknown
}

// placed adds the users, GPUs and partitions of the processes. Those of a lease count also if its process has not
// opened them yet.
func placed(h *host.Host, a status.Account, list []runstate.Holder) []PlacedHolder {
	out := make([]PlacedHolder, 0, len(list))
	for _, one := range list {
		p := PlacedHolder{Holder: one, User: ownerOf(h, one.PID), GPUs: []string{}, Partitions: []string{}}
		nodes := slices.Concat(one.Devices, one.Leased)
		for _, g := range a.GPUs {
			if slices.ContainsFunc(nodes, func(node string) bool { return node == g.Card || slices.Contains(g.Nodes, node) }) {
				p.GPUs = append(p.GPUs, g.Address)
			}
		}
		for _, part := range a.Parts {
			if slices.Contains(nodes, part.RenderNode) || part.Card != "" && slices.Contains(nodes, part.Card) {
				p.Partitions = append(p.Partitions, part.Name)
				p.GPUs = append(p.GPUs, part.GPU)
			}
		}
		for _, address := range one.Attached {
			p.GPUs = append(p.GPUs, string(address))
		}
		slices.Sort(p.GPUs)
		p.GPUs = slices.Compact(p.GPUs)
		out = append(out, p)
	}
	return out
}

// plain returns the processes without their places.
func plain(list []PlacedHolder) []runstate.Holder {
	out := make([]runstate.Holder, 0, len(list))
	for _, p := range list {
		out = append(out, p.Holder)
	}
	return out
}

// ownerOf returns the user of a process; "" if it has ended.
func ownerOf(h *host.Host, pid int) string {
	info, err := os.Stat(h.Path("proc", strconv.Itoa(pid)))
	if err != nil {
		return ""
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return host.UserName(st.Uid)
	}
	return ""
}

// holderTable returns the table of the processes.
func holderTable(con *console.Console, a status.Account, list []PlacedHolder) *console.Table {
	t := con.NewTable("GPU", "PARTITION", "USER", "PID", "COMMAND", "UNIT", "DEVICES").Optional("DEVICES")
	vendors := vendorsOf(a)
	for _, p := range list {
		t.Row(console.OrDash(numbersOf(a, p.GPUs, vendors)), console.OrDash(text.Partitions(p.Partitions)), console.OrDash(p.User),
			strconv.Itoa(p.PID), p.Command, console.OrDash(p.Unit), console.OrDash(strings.Join(p.Devices, " ")))
	}
	return t
}

// numbersOf returns the numbers of GPUs, those that follow each other joined: "0-3 5".
func numbersOf(a status.Account, addresses []string, vendors int) string {
	var rows []gpuRow
	for _, g := range a.GPUs {
		if !g.Managed() || !slices.Contains(addresses, g.Address) {
			continue
		}
		n := len(rows) - 1
		if n >= 0 && rows[n].vendor == g.Vendor && rows[n].indices[len(rows[n].indices)-1] == g.Index-1 {
			rows[n].indices = append(rows[n].indices, g.Index)
			continue
		}
		rows = append(rows, gpuRow{indices: []int{g.Index}, vendor: g.Vendor})
	}
	var out []string
	for _, r := range rows {
		out = append(out, r.number(vendors))
	}
	return strings.Join(out, " ")
}
