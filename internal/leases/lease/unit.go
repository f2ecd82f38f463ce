package lease

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"dcm/internal/gpu/partition"
	"dcm/internal/leases/placement"
	"dcm/internal/linux/unitname"
)

// CommonNode is the device node that a process has to open in addition to a partition's own nodes. A
// partition with companion nodes (see [runstate.Part]) has those instead.
const CommonNode = "/dev/kfd"

// MayNeedCommonNode reports whether a holder of such partitions may have to open [CommonNode].
func MayNeedCommonNode(s partition.Criteria) bool { return s.MayMatch(partition.AMD) }

// waitPrefix begins the names of scopes for processes that wait for a lease and were moved out of
// their former one: "dcm-wait-1000-4f1c09aa.scope". Processes in such a scope can open no GPU.
const waitPrefix = "dcm-wait-"

func waitName(uid uint32) string { return fmt.Sprintf("%s%d-%s.scope", waitPrefix, uid, id()) }

// Made reports whether a scope was created by dcm, for a lease or for a process that waits for one.
func Made(unit string) bool {
	_, ok := unitname.ParseLease(unit)
	return ok || strings.HasPrefix(unit, waitPrefix) && strings.HasSuffix(unit, ".scope")
}

// newName returns an unused unit name for a lease.
func newName(uid uint32, r Request, snapshot Snapshot) string {
	for {
		n := unitname.Lease{Kind: r.Kind, UID: uid, ID: id(), Of: r.Of}.String()
		if !slices.ContainsFunc(snapshot.Units, func(u UnitDevices) bool { return u.Unit == n }) {
			return n
		}
	}
}

func id() string {
	var b [4]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// nodesOf returns the device nodes that a lease of these partitions may open: the common or companion
// nodes first, then the partitions' own.
func nodesOf(choice placement.Choice, common []string) []string {
	var own, out []string
	for _, p := range choice.Partitions {
		own = append(own, p.Render)
		companions := p.Companions
		if companions == nil {
			companions = common
		}
		for _, node := range companions {
			if !slices.Contains(out, node) {
				out = append(out, node)
			}
		}
	}
	return append(out, own...)
}

// describe returns the scope's Description=. Every user can read it, so it contains the name of
// the program without its arguments. It does not end with a backslash, which would continue the
// line in the unit file.
func describe(r Request, c placement.Choice) string {
	names := make([]string, len(c.Partitions))
	for i, p := range c.Partitions {
		names[i] = p.Name
	}
	program := "unknown"
	if words := strings.Fields(r.What); len(words) > 0 {
		program = filepath.Base(words[0])
	}
	return strings.TrimRight(DescriptionPrefix+strings.Join(names, " ")+": "+program, `\`)
}

// DescriptionPrefix begins the Description= of the scope of a lease.
const DescriptionPrefix = "Lease of "

// ParseDescription returns the partitions and the program of a lease, given its Description=.
func ParseDescription(text string) (partitions []string, program string) {
	names, program, _ := strings.Cut(strings.TrimPrefix(text, DescriptionPrefix), ": ")
	return strings.Fields(names), program
}
