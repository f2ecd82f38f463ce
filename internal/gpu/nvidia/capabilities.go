package nvidia

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"dcm/internal/gpu/nvml"
)

// capMinors returns the minor numbers of the capability nodes by their names in the driver:
// "gpu0/gi2/access", "gpu0/gi2/ci0/access". The file lists all possible instances, not only
// existing ones.
func (h host) capMinors() map[string]int {
	f, err := os.Open(filepath.Join(h.Proc, "driver/nvidia-caps/mig-minors"))
	if err != nil {
		return nil // without the file, partitions have no nodes
	}
	defer f.Close()
	const most = 1 << 20 // ten times the usual size
	out := make(map[string]int)
	for lines := bufio.NewScanner(io.LimitReader(f, most)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if number, err := strconv.Atoi(value); err == nil {
			out[name] = number
		}
	}
	return out
}

// instanceNodes returns the capability nodes of instances of the GPU with that minor number.
func instanceNodes(gpu int, instances []nvml.Instance, minors map[string]int) []string {
	var out []string
	for _, i := range instances {
		gi := fmt.Sprintf("gpu%d/gi%d", gpu, i.ID)
		if number, ok := minors[gi+"/access"]; ok {
			out = append(out, capNode(number))
		}
		for _, c := range i.Compute {
			if number, ok := minors[fmt.Sprintf("%s/ci%d/access", gi, c.ID)]; ok {
				out = append(out, capNode(number))
			}
		}
	}
	return out
}

func capNode(minor int) string { return fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", minor) }

// migFingerprint lists the MIG instances in /proc. The driver sends no event when instances
// change, and an event set of the library would hold the GPU. The text has only the ids,
// which mostly change with the instances.
func (h host) migFingerprint() string {
	var b strings.Builder
	b.WriteString(h.module().State())
	// Constant patterns have no error.
	for _, pattern := range []string{"gpu*", "gpu*/mig", "gpu*/mig/gi*", "gpu*/mig/gi*/ci*"} {
		found, _ := filepath.Glob(h.proc("capabilities", pattern))
		for _, path := range found {
			rel, _ := filepath.Rel(h.proc("capabilities"), path)
			b.WriteString(" " + rel)
		}
	}
	return b.String()
}
