package leases

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/exitcode"
	"dcm/internal/linux/cpus"
	"dcm/internal/sanitize"
)

// checkNodesKnown returns an error if no partition of the host has a known NUMA node, so that no lease
// could be bound. An empty list of partitions decides nothing: a lease may make its own.
func checkNodesKnown(parts []runstate.Part) error {
	for _, p := range parts {
		if p.NUMA >= 0 {
			return nil
		}
	}
	if len(parts) == 0 {
		return nil
	}
	return exitcode.With(exitcode.Permanent, errors.New("--numa: the NUMA nodes of the GPUs are not known\nhint: the firmware does not report them; run without --numa"))
}

// oneNode returns the NUMA node of all partitions of a lease.
func oneNode(names []string, parts []runstate.Part) (int, error) {
	nodes := numaNodes(ownParts(names, parts))
	if nodes == "" || len(ownParts(names, parts)) < len(names) {
		return 0, exitcode.With(exitcode.Permanent, fmt.Errorf("--numa: the NUMA node of a partition is not known (%s)", strings.Join(names, " ")))
	}
	node, err := strconv.Atoi(nodes)
	if err != nil { // a list
		return 0, exitcode.With(exitcode.Transient, fmt.Errorf("--numa: the partitions of the lease are on several NUMA nodes (found %s, want one)\nhint: request fewer partitions, or retry when others are free", nodes))
	}
	return node, nil
}

// bind binds this thread, and so the command that it executes next, to the NUMA node of the partitions of a
// lease.
func bind(h *host.Host, names []string, parts []runstate.Part) error {
	node, err := oneNode(names, parts)
	if err != nil {
		return err
	}
	runtime.LockOSThread() // until the command replaces it
	return bindToNode(h, node)
}

// bindToNode binds the calling thread to the processors and the memory of a NUMA node, and reads both
// back from the kernel. A program that the thread executes, and its children, inherit them
// (set_mempolicy(2), sched_setaffinity(2)).
func bindToNode(h *host.Host, node int) error {
	text, err := os.ReadFile(h.Path("sys/devices/system/node", fmt.Sprintf("node%d", node), "cpulist"))
	if err != nil {
		return fmt.Errorf("--numa: cannot read the processors of NUMA node %d: %w", node, err)
	}
	list, err := parseCPUs(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("--numa: processors of NUMA node %d: %w", node, err)
	}
	if err := bindProcessors(list); err != nil {
		return fmt.Errorf("--numa: cannot bind to the processors of NUMA node %d (%s): %w", node, sanitize.Text(strings.TrimSpace(string(text))), err)
	}
	if err := bindMemory(node); err != nil {
		return fmt.Errorf("--numa: cannot bind to the memory of NUMA node %d: %w", node, err)
	}
	return nil
}

// maxCPUs is the largest number of processors of a kernel (NR_CPUS) on the supported architectures.
const maxCPUs = 8192

// parseCPUs parses a list of processors of the kernel, "0-95,192-287".
func parseCPUs(list string) ([]int, error) {
	if list == "" {
		return nil, errors.New("the node has none")
	}
	out, ok := cpus.ParseList(list, maxCPUs)
	if !ok {
		return nil, fmt.Errorf("not a list of processors (found %s, want a list such as 0-3,8)", sanitize.Text(list))
	}
	return out, nil
}

// bindProcessors sets the processors of the calling thread. The kernel omits those that are offline or
// that the cgroup does not have, and fails if none is left.
func bindProcessors(list []int) error {
	want, got := unix.NewCPUSet(maxCPUs), unix.NewCPUSet(maxCPUs)
	for _, n := range list {
		want.Set(n)
	}
	err := unix.SchedSetaffinityDynamic(0, want)
	if errors.Is(err, unix.EINVAL) {
		return errors.New("none of them is available to this process")
	}
	if err == nil {
		err = unix.SchedGetaffinityDynamic(0, got)
	}
	if err != nil {
		return err
	}
	for n := range maxCPUs {
		if got.IsSet(n) && !want.IsSet(n) {
			return fmt.Errorf("the kernel also permits processor %d", n)
		}
	}
	return nil
}

// bindMemory makes the kernel allocate the memory of the calling thread on one NUMA node only.
func bindMemory(node int) error {
	var want unix.CPUSet
	want.Set(node)
	err := unix.SetMemPolicy(unix.MPOL_BIND, &want)
	switch {
	case errors.Is(err, unix.EINVAL):
		return errors.New("the node has no memory that is available to this process")
	case err != nil:
		return err
	}
	policy, err := memoryPolicy()
	if want := fmt.Sprintf("bind:%d", node); err == nil && policy != want {
		err = fmt.Errorf("the kernel has another memory policy (found %s, want %s)", policy, want)
	}
	return err
}

// memoryPolicy returns the memory policy of the calling thread, "bind:0" or "default": that of its first
// mapping, which has none of its own (numa(7)).
func memoryPolicy() (string, error) {
	f, err := os.Open("/proc/thread-self/numa_maps")
	if err != nil {
		return "", err
	}
	defer f.Close()
	line, err := bufio.NewReader(f).ReadString('\n')
	fields := strings.Fields(line)
	if err == nil && len(fields) < 2 {
		err = fmt.Errorf("unknown form %q", line)
	}
	if err != nil {
		return "", fmt.Errorf("cannot read the memory policy: %w", err)
	}
	return sanitize.Text(fields[1]), nil
}
