package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestModprobeArguments(t *testing.T) {
	t.Setenv("DCM_SIM", "/default")
	for line, want := range map[string]modprobeRequest{
		"amdgpu":                         {modules: []string{"amdgpu"}},
		"-r amdgpu":                      {modules: []string{"amdgpu"}, remove: true},
		"--remove amdgpu drm":            {modules: []string{"amdgpu", "drm"}, remove: true},
		"-abq drm amdgpu":                {modules: []string{"drm", "amdgpu"}, quiet: true},
		"--mount /m amdgpu":              {modules: []string{"amdgpu"}, mount: "/m"},
		"--mount=/m -r amdgpu":           {modules: []string{"amdgpu"}, mount: "/m", remove: true},
		"-C /etc/x -n amdgpu":            {modules: []string{"amdgpu"}, dry: true},
		"-v amdgpu user_partt_mode=4 dc": {modules: []string{"amdgpu"}, options: map[string]string{"user_partt_mode": "4", "dc": ""}},
		"":                               {},
	} {
		if want.mount == "" {
			want.mount = "/default"
		}
		if want.options == nil {
			want.options = map[string]string{}
		}
		got := parseModprobe(strings.Fields(line))
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(modprobeRequest{})); diff != "" {
			t.Errorf("modprobe %s (-want +got):\n%s", line, diff)
		}
	}
}

func TestModuleOptions_Directories(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"usr/lib/modprobe.d/dcm.conf":     "options amdgpu user_partt_mode=1 hidden=1\n",
		"run/modprobe.d/dcm.conf":         "# a comment\noptions amdgpu \\\n  user_partt_mode=2\noptions drm debug=1\n",
		"usr/lib/modprobe.d/zz.conf":      "options amdgpu vm_size=8\nblacklist amdgpu\n",
		"etc/modprobe.d/README":           "options amdgpu readme=1\n",
		"etc/modprobe.d/directory.conf/x": "",
		"proc/cmdline":                    "root=/dev/sda1 amdgpu.user_partt_mode=4 quiet\n",
	} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{"user_partt_mode": "4", "vm_size": "8"}
	if diff := cmp.Diff(want, moduleOptions(root)); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
}
