package leases

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/dbusapi"
	"dcm/internal/sanitize"
)

// The variables that dcm run sets for its command. Lists are separated by spaces, and those that other
// programs read by commas.
const (
	leaseVariable      = "DCM_LEASE"       // the name of the unit
	partitionsVariable = "DCM_PARTITIONS"  // the names of the partitions
	devicesVariable    = "DCM_CDI_DEVICES" // their names for container engines
	nodesVariable      = "DCM_NUMA_NODES"  // the NUMA nodes of their GPUs; not set if one is not known
	cudaVariable       = "CUDA_VISIBLE_DEVICES"
)

// migPrefix begins the UUID of a MIG device.
const migPrefix = "MIG-"

// environment returns the environment of the command: the caller's, and what describes the lease. parts
// are the partitions of the host, and devices the names of those of the lease for container engines. The notes name
// inherited variables that hide partitions of the lease.
func environment(inherited []string, l dbusapi.Lease, devices []string, parts []runstate.Part) (env, notes []string) {
	own := ownParts(l.Partitions, parts)
	inherited = withoutLease(inherited)
	notes = filters(inherited, own)
	env = append(inherited, leaseVariable+"="+l.Unit, partitionsVariable+"="+strings.Join(l.Partitions, " "))
	env = append(env, devicesVariable+"="+strings.Join(devices, " "))
	if nodes := numaNodes(own); len(own) == len(l.Partitions) && nodes != "" {
		env = append(env, nodesVariable+"="+nodes)
	}
	// CUDA uses one MIG device of a process, the first by default.
	if devices := migDevices(own); len(devices) > 1 && value(inherited, cudaVariable) == "" {
		env = append(env, cudaVariable+"="+strings.Join(devices, ","))
	}
	return env, notes
}

// ownParts returns those of the partitions that have these names.
func ownParts(names []string, parts []runstate.Part) []runstate.Part {
	var own []runstate.Part
	for _, name := range names {
		if i := slices.IndexFunc(parts, func(p runstate.Part) bool { return p.Name == name }); i >= 0 {
			own = append(own, parts[i])
		}
	}
	return own
}

// withoutLease removes the variables of an outer lease: a process in a lease can request another one.
func withoutLease(inherited []string) []string {
	inner := value(inherited, leaseVariable) != ""
	return slices.DeleteFunc(slices.Clone(inherited), func(entry string) bool {
		name, text, _ := strings.Cut(entry, "=")
		own := slices.Contains([]string{leaseVariable, partitionsVariable, devicesVariable, nodesVariable}, name)
		return own || inner && name == cudaVariable && strings.HasPrefix(text, migPrefix)
	})
}

func value(env []string, name string) string {
	for _, entry := range slices.Backward(env) {
		if text, ok := strings.CutPrefix(entry, name+"="); ok {
			return text
		}
	}
	return ""
}

// filters returns a note for each inherited variable by which a runtime hides devices. The device list
// has already removed all but those of the lease, and the runtime numbers these from 0.
func filters(inherited []string, own []runstate.Part) []string {
	amd := slices.ContainsFunc(own, func(p runstate.Part) bool { return strings.HasPrefix(p.Kind, "amd") })
	var out []string
	for _, name := range []string{"ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", cudaVariable} { // HIP reads the last one, too
		if text := value(inherited, name); text != "" && (amd || name == cudaVariable) {
			out = append(out, fmt.Sprintf("%s=%s is inherited and may hide partitions of the lease, which are numbered from 0\nhint: env -u %[1]s dcm run ...", name, sanitize.Text(text)))
		}
	}
	return out
}

// numaNodes returns the NUMA nodes of partitions, "0,1"; "" if one is not known.
func numaNodes(parts []runstate.Part) string {
	var nodes []int
	for _, p := range parts {
		if p.NUMA < 0 {
			return ""
		}
		nodes = append(nodes, p.NUMA)
	}
	slices.Sort(nodes)
	var out []string
	for _, n := range slices.Compact(nodes) {
		out = append(out, strconv.Itoa(n))
	}
	return strings.Join(out, ",")
}

func migDevices(parts []runstate.Part) []string {
	var out []string
	for _, p := range parts {
		if strings.HasPrefix(p.UUID, migPrefix) {
			out = append(out, p.UUID)
		}
	}
	return out
}
