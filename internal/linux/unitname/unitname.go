// Package unitname holds the names of dcm's own units and what their drop-ins and the
// configuration have to call alike, and knows nothing else: who writes the drop-ins,
// restarts the units, tells of them or refuses them as clients has to mean the same ones.
package unitname

import (
	"slices"
	"strings"
)

const (
	Daemon  = "dcm.service"
	Apply   = "dcm-apply.service"   // its restart is one repartitioning
	Reserve = "dcm-reserve.service" // chooses partitions when reservations alone have changed
	Guard   = "dcm-guard.service"   // keeps what is exclusive for its holders
	Agent   = "dcm-agent.service"   // answers programs that select profiles

	AgentSocket = "dcm-agent.socket" // where it does, if the configuration lets it
)

// Beside ends the name of the directory of links to what goes with a reservation's
// partitions, which the drop-in of its unit names; no reservation has such a name.
const Beside = ".beside"

// ObserversVariable is the environment variable by which dcm-guard learns of the observers.
const ObserversVariable = "DCM_OBSERVERS"

// Slice is the unit that every holder of partitions is below.
const Slice = "dcm.slice"

// ObserverSlice is the unit that dcm's daemon, its oneshots and the observers run in. Every
// partition opens below it. A stop of [Slice] does not stop it.
const ObserverSlice = "system-dcm.slice"

// HolderSlice returns the slice below [Slice] for the unit of the reservation with that
// name. A '-' would nest the slice below another reservation's, so it becomes a ':', which
// no name of a reservation has.
func HolderSlice(reservation string) string {
	return strings.TrimSuffix(Slice, ".slice") + "-" + strings.ReplaceAll(reservation, "-", ":") + ".slice"
}

// All returns the units that the package brings.
func All() []string { return []string{Daemon, Apply, Reserve, Guard, Agent, AgentSocket} }

// Own tells whether a unit is dcm's.
func Own(unit string) bool { return strings.HasPrefix(unit, "dcm") && slices.Contains(All(), unit) }

// Characters are those of a unit name, and MaxLength its length in bytes, suffix included
// (VALID_CHARS_WITH_AT and UNIT_NAME_MAX in systemd).
const (
	Characters = `0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ:-_.\@`
	MaxLength  = 255
)

// Valid reports whether systemd accepts the name of a unit, an instance or a template
// (unit_name_is_valid in systemd). Device units are not accepted: they have no drop-ins and no
// processes. A valid name has no path separator, no control character and no glob.
func Valid(name string) bool {
	dot := strings.LastIndexByte(name, '.')
	return dot > 0 && name[0] != '@' && len(name) <= MaxLength && slices.Contains(types(), name[dot:]) && strings.Trim(name, Characters) == ""
}

func types() []string {
	return []string{".service", ".socket", ".target", ".mount", ".automount", ".timer", ".path", ".swap", ".slice", ".scope"}
}
