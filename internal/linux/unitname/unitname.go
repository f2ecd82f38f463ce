// Package unitname defines the names of dcm's own units, slices and leases, and the syntax of unit
// names. The generator, the daemon, the configuration and the status use them.
package unitname

import (
	"path"
	"slices"
	"strings"
)

const (
	Daemon  = "dcm.service"
	Apply   = "dcm-apply.service"   // a restart applies the profile
	Gate    = "dcm-gate.service"    // holds a change of single GPUs until all its jobs are queued
	Change  = "dcm-change.service"  // applies the profile to single GPUs
	Reserve = "dcm-reserve.service" // chooses partitions after a change of reservations only
	Guard   = "dcm-guard.service"   // loads the table of exclusive partitions
	Make    = "dcm-make@.service"   // template: creates a MIG instance or sets a compute mode for leases, and undoes it
	Clean   = "dcm-clean@.service"  // template: cleans a partition after its users
	Keep    = "dcm-keep@.target"    // template: keeps the compute mode of the instance of Make between leases
	Agent   = "dcm-agent.service"   // serves programs that select profiles, such as dcm-kubernetes

	AgentSocket = "dcm-agent.socket" // the socket of dcm-agent.service; inactive unless the configuration permits it
)

// CompanionSuffix ends the name of the directory with links to the companion nodes of a reservation's
// partitions. No reservation may have a name with this suffix.
const CompanionSuffix = ".beside"

// ObserversVariable is the environment variable with which dcm-guard gets the names of the observers.
const ObserversVariable = "DCM_OBSERVERS"

// WithheldDir is the directory in /run/dcm with a file for each client that does not start, since a
// change of single GPUs has failed.
const WithheldDir = "withheld"

// Slice is the slice in which all holders of partitions run.
const Slice = "dcm.slice"

// ObserverSlice is the slice of dcm's own services and of the observers. Processes in it can open
// every partition. It is not below [Slice], so a stop of [Slice] does not stop it.
const ObserverSlice = "system-dcm.slice"

// CleanFor returns the unit that cleans a partition after its users.
func CleanFor(partition string) string { return strings.Replace(Clean, "@", "@"+partition, 1) }

// CleanedBy returns the partition that a unit cleans, "" for other units.
func CleanedBy(unit string) string {
	prefix, suffix, _ := strings.Cut(Clean, "@")
	partition, ok := strings.CutPrefix(unit, prefix+"@")
	if !ok {
		return ""
	}
	return strings.TrimSuffix(partition, suffix)
}

// HolderSlice returns the slice for the unit of a reservation, below [Slice]. In the name of a slice,
// '-' means a level of the hierarchy, so HolderSlice replaces it by ':', which no name of a reservation
// contains.
func HolderSlice(reservation string) string {
	return strings.TrimSuffix(Slice, ".slice") + "-" + strings.ReplaceAll(reservation, "-", ":") + ".slice"
}

// All returns the units of the packages.
func All() []string {
	return []string{Daemon, Apply, Gate, Change, Reserve, Guard, Make, Clean, Keep, Agent, AgentSocket}
}

// Runs returns the units that change GPUs. One of them runs at a time.
func Runs() []string { return []string{Apply, Change} }

// Own reports whether a unit is in [All], or an instance of a template there.
func Own(unit string) bool {
	return strings.HasPrefix(unit, "dcm") && (slices.Contains(All(), unit) || slices.Contains(All(), Template(unit)))
}

// Characters are the characters that a unit name may contain (VALID_CHARS_WITH_AT in systemd).
// MaxLength is its maximum length in bytes, with the suffix (UNIT_NAME_MAX).
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

// Template returns the template of an instance, as "vllm@.service"; "" for other units.
func Template(unit string) string {
	stem, rest, ok := strings.Cut(unit, "@")
	if !ok || strings.HasPrefix(rest, ".") {
		return ""
	}
	return stem + "@" + path.Ext(unit)
}

// IndexFor returns the index of the first of n entries for a unit, -1 if there is none. of returns the unit of an
// entry. Entries for an instance come before those for its template.
func IndexFor(unit string, n int, of func(i int) string) int {
	for _, name := range []string{unit, Template(unit)} {
		for i := range n {
			if name != "" && of(i) == name {
				return i
			}
		}
	}
	return -1
}

// MadeDir returns the name of the directory below /dev/dcm with the links of a unit whose reservation
// creates its partition. Each instance has its own if the reservation is for a template: "vllm:a" for the
// instance a. No name of a reservation contains ':'.
func MadeDir(reservation, reserved, unit string) string {
	if !strings.Contains(reserved, "@.") {
		return reservation
	}
	_, instance, _ := strings.Cut(strings.TrimSuffix(unit, path.Ext(unit)), "@")
	return reservation + ":" + instance
}
