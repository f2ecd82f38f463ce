package config

import (
	"path"
	"slices"
	"strings"

	"dcm/internal/engine/config/rule"
	"dcm/internal/engine/config/source"
)

// MaxOtherDevices is the number of other device nodes that a lease or a service may open.
const MaxOtherDevices = 64

// leaseDevices is the rule of the other device nodes that leases, or a service with a reservation, may open.
func leaseDevices() rule.Rule {
	return rule.List(rule.Scalar("a string", devicePattern), nil)
}

const acceptedDevices = `device nodes that belong to no GPU, such as "/dev/fuse" or "/dev/infiniband/uverbs*"`

// devicePattern checks a path or pattern of device nodes. It compares names only: the nodes that match are compared with
// those of the GPUs when a lease starts.
func devicePattern(pattern string) *source.Fault {
	rest, below := strings.CutPrefix(pattern, "/dev/")
	first, _, _ := strings.Cut(rest, "/")
	_, bad := path.Match(pattern, "/dev/null")
	switch {
	case !below || path.Clean(pattern) != pattern || first == "" || bad != nil || strings.ContainsFunc(pattern, notInPath):
		return &source.Fault{Text: "not a path or pattern below /dev", Accepted: acceptedDevices}
	case UnleasableDevice(pattern):
		return &source.Fault{Text: "device nodes of GPUs, of memory, or in a directory that users can write", Accepted: acceptedDevices}
	case mayMatchUnleasable(first):
		return &source.Fault{Text: "also matches device nodes of GPUs, or of memory", Accepted: acceptedDevices}
	}
	return nil
}

// notInPath reports whether a path with the character would not be a word of a unit file.
func notInPath(r rune) bool { return r <= ' ' || r == '%' || r == 0x7f }

// unleasable are the names below /dev that leases get by their partitions alone: nodes and links of GPUs and of dcm. It has
// also those of memory, and the directories in which every user can create links.
func unleasable() []string {
	return []string{"kfd", "dri", "nvidia", "dcm", "char", "mem", "kmem", "port", "shm", "mqueue", "fd"}
}

// UnleasableDevice reports whether a path, or a pattern by its first part, is one that devices in [leases] cannot name.
func UnleasableDevice(node string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(node, "/dev/"), "/")
	return slices.Contains(unleasable(), first) || strings.HasPrefix(first, "nvidia")
}

// mayMatchUnleasable reports whether a pattern for a name in /dev matches one of [unleasable].
func mayMatchUnleasable(pattern string) bool {
	nvidia := []string{"nvidia0", "nvidia10", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-caps", "nvidia-modeset", "nvidia-nvswitch0"}
	return slices.ContainsFunc(slices.Concat(unleasable(), nvidia), func(name string) bool {
		match, _ := path.Match(pattern, name)
		return match
	})
}

func readDevices(n *source.Node) []string {
	var out []string
	for _, item := range n.Items() {
		text, _ := item.Text()
		out = append(out, text)
	}
	return out
}
