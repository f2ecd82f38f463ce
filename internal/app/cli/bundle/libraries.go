package bundle

import (
	"fmt"
	"runtime"
	"strings"

	"dcm/internal/engine/host"
	"dcm/internal/gpu"
)

// VersionText returns the version of dcm and of the vendors' libraries.
func VersionText(h *host.Host, libraries []gpu.Library) string {
	var b strings.Builder
	fmt.Fprintf(&b, "dcm %s (%s, %s)\n", h.Version, runtime.Version(), runtime.GOARCH)
	for _, l := range libraries {
		fmt.Fprintf(&b, "%s: %s\n", l.Name, l.State)
	}
	return b.String()
}
