package metrics

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/frontends/status"
)

func usage() status.Usage {
	bytes, busy := uint64(1<<30), 37.5
	return status.Usage{Taken: at(0), Parts: []status.PartUse{
		{Name: "0000:05:00.0-0", GPU: "0000:05:00.0", Memory: 24 << 30, Used: &bytes, Busy: &busy, Holders: []string{"a.service"}, Processes: []status.Process{{PID: 7, User: "alice"}}},
		{Name: "0000:05:00.0-1", GPU: "0000:05:00.0"},
	}}
}

func TestRenderUsage(t *testing.T) {
	want := []string{
		`dcm_partition_memory_bytes{partition="0000:05:00.0-0",gpu="0000:05:00.0"} 2.5769803776e+10`,
		`dcm_partition_memory_used_bytes{partition="0000:05:00.0-0",gpu="0000:05:00.0"} 1.073741824e+09`,
		`dcm_partition_busy_ratio{partition="0000:05:00.0-0",gpu="0000:05:00.0"} 0.375`,
		`dcm_partition_held{partition="0000:05:00.0-0",gpu="0000:05:00.0"} 1`,
		`dcm_partition_held{partition="0000:05:00.0-1",gpu="0000:05:00.0"} 0`,
		`dcm_partition_processes{partition="0000:05:00.0-0",gpu="0000:05:00.0"} 1`,
		`dcm_partition_processes{partition="0000:05:00.0-1",gpu="0000:05:00.0"} 0`,
		"dcm_usage_timestamp_seconds 1000",
	}
	if d := cmp.Diff(want, samples(string(RenderUsage(usage())))); d != "" {
		t.Errorf("samples (-want +got):\n%s", d)
	}
}

func TestRenderUsage_UnknownHolders(t *testing.T) {
	u := usage()
	u.Hide(status.PartHolders, errors.New("no"))
	u.Hide(status.PartProcesses, errors.New("no"))
	text := string(RenderUsage(u))
	if strings.Contains(text, "held{partition=\"0000:05:00.0-1") || strings.Contains(text, "_processes{") || !strings.Contains(text, "_held{partition=\"0000:05:00.0-0") {
		t.Errorf("metrics:\n%s", text)
	}
}

func TestRenderUsage_Promtool(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed (Debian: prometheus)")
	}
	cmd := exec.Command(promtool, "check", "metrics")
	cmd.Stdin = strings.NewReader(string(RenderUsage(usage())))
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestRender_Reserved(t *testing.T) {
	f := facts()
	f.Parts = []status.Part{{Name: "0000:05:00.0-0", GPU: "0000:05:00.0"}, {Name: "0000:05:00.0-1", GPU: "0000:05:00.0"}}
	f.Reserved = []status.Reserved{{Name: "vllm", Partitions: []string{"0000:05:00.0-1"}}}
	text := string(Render(f, at(0), nil))
	for _, want := range []string{
		`dcm_partition_reserved{partition="0000:05:00.0-0",gpu="0000:05:00.0"} 0`, `dcm_partition_reserved{partition="0000:05:00.0-1",gpu="0000:05:00.0"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("metrics lack %s:\n%s", want, text)
		}
	}
}
