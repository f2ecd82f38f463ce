package leases

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/dbusapi"
	"dcm/internal/leases/lease"
)

// describe prints the notes of a lease, and returns the environment of its command.
func describe(ctx context.Context, h *host.Host, con *console.Console, inherited []string, l dbusapi.Lease) []string {
	parts := readParts(h)
	devices, missing := containerDevices(ctx, hostSpecifications{h}, l.Partitions, parts)
	env, notes := environment(inherited, l, devices, parts)
	if missing != "" {
		notes = append(notes, missing)
	}
	for _, note := range append(withProbe(h, l, parts), notes...) {
		con.Note(note)
	}
	return env
}

// readParts returns the partitions of the host, none if they cannot be read.
func readParts(h *host.Host) []runstate.Part {
	listed, err := runstate.ReadPartitions(h.Runtime())
	if err != nil || listed == nil {
		return nil
	}
	return listed.Parts
}

// withProbe returns the notes of a lease. This process, which is in the lease, first checks
// whether the lease confines it.
func withProbe(h *host.Host, l dbusapi.Lease, parts []runstate.Part) []string {
	open := lease.Reachable(h.Path, parts, l.Partitions)
	if open != "" {
		return append([]string{fmt.Sprintf("not confined: this process can open %s, which is not in its lease. The device list of the scope has no effect; systemd may be unable to load BPF programs", open)}, l.Notes...)
	}
	notes := slices.Clone(l.Notes)
	for i, note := range notes {
		if strings.HasPrefix(note, lease.NotExclusive) {
			notes[i] = "confined, " + note
		}
	}
	return notes
}
