package fluxcmd

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/runstate"
)

func TestNodesOf(t *testing.T) {
	amd := []runstate.Part{
		{GPU: "0000:05:00.0", Render: "/dev/dri/renderD128", Card: "/dev/dri/card0"}, {GPU: "0000:05:00.0", Render: "/dev/dri/renderD129", Card: "/dev/dri/card1"},
		{GPU: "0000:15:00.0", Render: "/dev/dri/renderD130"},
	}
	mig := []runstate.Part{{GPU: "0000:1b:00.0", Render: "/dev/nvidia-caps/nvidia-cap13", Companions: []string{"/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-caps/nvidia-cap12"}}}
	for _, tt := range []struct {
		name  string
		parts []runstate.Part
		ids   string
		whole bool
		want  string // the nodes, or a part of the error
	}{
		{"one partition", amd, "1", false, "/dev/dri/card1 /dev/dri/renderD129 /dev/kfd"},
		{"a range and a number", amd, "[0-1,2]", false, "/dev/dri/card0 /dev/dri/card1 /dev/dri/renderD128 /dev/dri/renderD129 /dev/dri/renderD130 /dev/kfd"},
		{"a whole GPU", amd, "0", true, "/dev/dri/card0 /dev/dri/card1 /dev/dri/renderD128 /dev/dri/renderD129 /dev/kfd"},
		{"the next GPU", amd, "1", true, "/dev/dri/renderD130 /dev/kfd"},
		{"a MIG instance", mig, "0", false, "/dev/nvidia-caps/nvidia-cap12 /dev/nvidia-caps/nvidia-cap13 /dev/nvidia0 /dev/nvidiactl"},
		{"too high", amd, "2-3", false, "want 0-2"},
		{"too high a GPU", amd, "2", true, "want 0-1"},
		{"no number", amd, "x", false, "want 0-2"},
		{"backwards", amd, "1-0", false, "want 0-2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			nodes, err := nodesOf(tt.parts, tt.ids, tt.whole)
			if err != nil {
				if !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want %s", err, tt.want)
				}
				return
			}
			if d := cmp.Diff(tt.want, strings.Join(nodes, " ")); d != "" {
				t.Errorf("device nodes (-want +got):\n%s", d)
			}
		})
	}
}
