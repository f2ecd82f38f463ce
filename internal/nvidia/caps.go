package nvidia

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"dcm/internal/attr"
)

// capabilities are the minors of the nodes of a GPU's instances, by their names below
// the GPU: "gi2/access", "gi2/ci0/access".
func (n *Node) capabilities(minor int) map[string]int {
	out := make(map[string]int)
	dir := n.proc("capabilities", fmt.Sprintf("gpu%d", minor), "mig")
	for _, pattern := range []string{"gi*/access", "gi*/ci*/access"} {
		found, _ := filepath.Glob(filepath.Join(dir, pattern)) // the pattern is in order
		for _, path := range found {
			rel, _ := filepath.Rel(dir, path)
			if number, ok := capability(path); ok {
				out[rel] = number
			}
		}
	}
	return out
}

// capability is the minor that a file of the driver's tells for a capability's node.
func capability(path string) (int, bool) {
	text, err := attr.Read(path)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, "DeviceFileMinor:"); ok {
			number, err := strconv.Atoi(strings.TrimSpace(value))
			return number, err == nil
		}
	}
	return 0, false
}

func capNode(minor int) string { return fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", minor) }
