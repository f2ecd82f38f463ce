package query

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"dcm/internal/app/cli/console"
	"dcm/internal/frontends/status"
	"dcm/internal/text"
)

// On a host with GPUs of both vendors, which are counted separately, no two GPUs have the same number. A lost
// GPU keeps its own.
func TestGPUTable_BothVendors(t *testing.T) {
	var a status.Account
	for i, vendor := range []string{"amd", "amd", "nvidia"} {
		a.GPUs = append(a.GPUs, status.GPU{Index: i % 2, Address: fmt.Sprintf("0000:%02x:00.0", i+5), Vendor: vendor, Model: "X", Mode: status.Shape{Compute: "SPX", Memory: "NPS1"}})
	}
	a.Expected.Lost = []status.Lost{{Index: 1, Address: "0000:9d:00.0", Vendor: "nvidia", Model: "X"}}
	for _, width := range []int{60, 80, 160} {
		var out bytes.Buffer
		gpuTable(console.Fixed(&out, width), a).Flush()
		for _, want := range []string{"AMD 0 ", "AMD 1 ", "NVIDIA 0 ", "NVIDIA 1 "} {
			if strings.Count(out.String(), "  "+want) != 1 {
				t.Errorf("width %d: want %q once in:\n%s", width, want, out.String())
			}
		}
		for line := range strings.Lines(out.String()) {
			if n := text.Width(strings.TrimRight(line, "\n")); n > width {
				t.Errorf("width %d: a line of %d: %s", width, n, line)
			}
		}
	}
	var out bytes.Buffer
	a.GPUs, a.Expected.Lost = a.GPUs[:2], nil
	gpuTable(console.Fixed(&out, 80), a).Flush()
	if strings.Contains(out.String(), "AMD") {
		t.Errorf("one vendor:\n%s", out.String())
	}
}
