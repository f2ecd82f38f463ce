package leaseservice

import (
	"errors"
	"io/fs"
	"os"
	"slices"

	"dcm/internal/engine/host"
)

// absent returns the nodes that do not exist. systemd resolves a device list when a unit starts
// and skips them. A program whose driver loads another module later cannot open its nodes.
func MissingNodes(h *host.Host, nodes []string) []string {
	var out []string
	for _, node := range nodes {
		if _, err := os.Stat(h.Path(node)); errors.Is(err, fs.ErrNotExist) && !slices.Contains(out, node) {
			out = append(out, node)
		}
	}
	return out
}
