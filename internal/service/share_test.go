package service

import (
	"os"
	"path/filepath"
	"testing"

	"dcm/internal/host"
	"dcm/internal/report"
)

// Somebody has to tell container engines, and a service that is masked does not.
func TestNVIDIAsServiceTellsEnginesUnlessItIsMasked(t *testing.T) {
	const refresh = "systemd/system/nvidia-cdi-refresh.service"
	list := report.Partitions{Parts: []report.Part{{Render: "/dev/dri/renderD128"}, {Render: "/dev/nvidia-caps/nvidia-cap12", Beside: []string{"/dev/nvidiactl"}}}}
	for name, c := range map[string]struct {
		files map[string]string // where links lead, "" for a file
		told  int
	}{
		"it is not there":    {nil, 2},
		"it is installed":    {map[string]string{"usr/lib/" + refresh: ""}, 1},
		"an administrator's": {map[string]string{"etc/" + refresh: ""}, 1},
		"it is masked":       {map[string]string{"usr/lib/" + refresh: "", "etc/" + refresh: "/dev/null"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for file, to := range c.files {
				path := filepath.Join(root, file)
				err := os.MkdirAll(filepath.Dir(path), 0o755)
				if err == nil && to != "" {
					err = os.Symlink(to, path)
				} else if err == nil {
					err = os.WriteFile(path, nil, 0o644)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if got := (sharing{host: &host.Host{Root: root}}).untold(list).Parts; len(got) != c.told {
				t.Errorf("engines are told of %+v", got)
			}
		})
	}
}
