package leaseservice

import (
	"errors"
	"io/fs"
	"os"
	"slices"

	"dcm/internal/engine/host"
)

// MissingNodes returns the nodes that do not exist. systemd reads the device numbers of a device list
// when a unit starts and skips missing nodes, so the unit cannot open a node that is created later.
func MissingNodes(h *host.Host, nodes []string) []string {
	var out []string
	for _, node := range nodes {
		if _, err := os.Stat(h.Path(node)); errors.Is(err, fs.ErrNotExist) && !slices.Contains(out, node) {
			out = append(out, node)
		}
	}
	return out
}
