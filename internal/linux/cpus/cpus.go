// Package cpus reads the sockets and cores of the host from /sys/devices/system.
package cpus

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"dcm/internal/linux/sysfs"
)

// Topology is the arrangement of the online CPUs.
type Topology struct {
	cores []core
	nodes map[int][]int // CPUs of each NUMA node
}

// core is a physical core. Its logical index is its position in [Topology].
type core struct {
	socket int
	cpus   []int // its hardware threads, ascending
}

// Read reads the topology below the directory /sys/devices/system. A kernel or container that does not
// show it has no cores here.
func Read(system string) (Topology, error) {
	t := Topology{nodes: make(map[int][]int)}
	for _, cpu := range numbered(path.Join(system, "cpu"), "cpu") {
		dir := path.Join(system, "cpu", fmt.Sprintf("cpu%d", cpu), "topology")
		socket, err := sysfs.Optional(dir + "/physical_package_id")
		if err != nil {
			return Topology{}, err
		}
		threads, err := sysfs.Optional(dir + "/thread_siblings_list")
		if err != nil {
			return Topology{}, err
		}
		id, err := strconv.Atoi(socket)
		siblings := parseList(threads)
		if err != nil || len(siblings) == 0 || siblings[0] != cpu { // offline, or not the first of its core
			continue
		}
		t.cores = append(t.cores, core{id, siblings})
	}
	t.sort()
	for _, node := range numbered(path.Join(system, "node"), "node") {
		list, err := sysfs.Optional(path.Join(system, "node", fmt.Sprintf("node%d", node), "cpulist"))
		if err != nil {
			return Topology{}, err
		}
		t.nodes[node] = parseList(list)
	}
	return t, nil
}

// sort orders the cores as hwloc does: the sockets by their lowest CPU, and the cores of a socket by
// theirs.
func (t *Topology) sort() {
	first := make(map[int]int) // the lowest CPU of each socket
	for _, c := range t.cores {
		if low, ok := first[c.socket]; !ok || c.cpus[0] < low {
			first[c.socket] = c.cpus[0]
		}
	}
	slices.SortFunc(t.cores, func(a, b core) int {
		return cmp.Or(cmp.Compare(first[a.socket], first[b.socket]), cmp.Compare(a.cpus[0], b.cpus[0]))
	})
}

// Near returns the logical indexes of all cores of the sockets that contain a NUMA node, as a list such
// as "0-95". It returns "" if they are unknown, or if they are all cores of the host.
func (t Topology) Near(node int) string {
	sockets := make(map[int]bool)
	for _, c := range t.cores {
		if slices.ContainsFunc(c.cpus, func(cpu int) bool { return slices.Contains(t.nodes[node], cpu) }) {
			sockets[c.socket] = true
		}
	}
	var near []int
	for i, c := range t.cores {
		if sockets[c.socket] {
			near = append(near, i)
		}
	}
	if len(near) == len(t.cores) {
		return ""
	}
	return formatList(near)
}

// numbered returns the numbers of the entries of a directory whose names are a stem and a number.
func numbered(dir, stem string) []int {
	names, err := sysfs.Names(dir)
	if err != nil {
		return nil // the kernel was built without it
	}
	var out []int
	for _, name := range names {
		if n, err := strconv.Atoi(strings.TrimPrefix(name, stem)); err == nil && strings.HasPrefix(name, stem) {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

// maxCPUs is above the number of CPUs that Linux supports.
const maxCPUs = 1 << 16

// ParseList parses the kernel's list format, "0-3,8", in its order. ok is false if a part has another form or
// a number that is not below the limit.
func ParseList(text string, limit int) (list []int, ok bool) {
	for part := range strings.SplitSeq(text, ",") {
		first, last, ok := parseRange(part, limit)
		if !ok {
			return nil, false
		}
		for n := first; n <= last; n++ {
			list = append(list, n)
		}
	}
	return list, true
}

// parseRange parses "8" or "0-3".
func parseRange(part string, limit int) (first, last int, ok bool) {
	low, high, isRange := strings.Cut(part, "-")
	if !isRange {
		high = low
	}
	first, err := strconv.Atoi(low)
	last, other := strconv.Atoi(high)
	return first, last, err == nil && other == nil && first >= 0 && last >= first && last < limit
}

// parseList is ParseList in ascending order. It ignores parts that are not in that format.
func parseList(text string) []int {
	var out []int
	for part := range strings.SplitSeq(text, ",") {
		own, _ := ParseList(part, maxCPUs)
		out = append(out, own...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// formatList is the reverse of parseList, for ascending numbers.
func formatList(list []int) string {
	var parts []string
	for i := 0; i < len(list); {
		n := 1
		for i+n < len(list) && list[i+n] == list[i]+n {
			n++
		}
		text := strconv.Itoa(list[i])
		if n > 1 {
			text = fmt.Sprintf("%d-%d", list[i], list[i+n-1])
		}
		parts, i = append(parts, text), i+n
	}
	return strings.Join(parts, ",")
}
