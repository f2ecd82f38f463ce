package change

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
)

// TestAwaited: in the sandbox of an older systemd a daemon in a container reads the boot ID of another host. The list is
// of this boot nevertheless.
func TestAwaited(t *testing.T) {
	for _, tt := range []struct {
		state runstate.GPUUse
		want  []string
	}{
		{runstate.GPUOpen, nil},
		{runstate.GPUAwaited, []string{"vllm.service"}},
		{runstate.NoGPU, nil},
	} {
		h := &host.Host{Root: t.TempDir()}
		if err := os.MkdirAll(filepath.Dir(h.GPUClients()), 0o755); err != nil {
			t.Fatal(err)
		}
		list := runstate.GPUClients{Boot: "of another host", Clients: []runstate.GPUClient{{Unit: "vllm.service", State: tt.state}}}
		if err := runstate.GPUClientsIn(h.GPUClients()).Write(list); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(tt.want, awaited(h)); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.state, d)
		}
	}
}
