package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDevicePattern(t *testing.T) {
	for pattern, want := range map[string]string{
		"/dev/fuse": "", "/dev/infiniband/uverbs*": "", "/dev/cxi*": "", "/dev/net/tun": "", "/dev/infiniband/*": "", "/dev/xpmem": "",
		"/dev/kfd": "device nodes of", "/dev/dri/renderD128": "device nodes of", "/dev/dri/*": "device nodes of", "/dev/nvidia0": "device nodes of",
		"/dev/nvidia-caps/*": "device nodes of", "/dev/nvidia*": "device nodes of", "/dev/dcm/vllm/render0": "device nodes of",
		"/dev/char/226:128": "device nodes of", "/dev/mem": "device nodes of", "/dev/shm/x": "device nodes of",
		"/dev/*": "also matches", "/dev/k*": "also matches", "/dev/[kx]fd": "also matches", "/dev/n*": "also matches", "/dev/d?i/renderD128": "also matches",
		"fuse": "not a path", "/dev": "not a path", "/dev/": "not a path", "/dev/../etc/passwd": "not a path", "/etc/passwd": "not a path",
		"/dev/[": "not a path", "": "not a path", "/dev/a b": "not a path", "/dev/%i": "not a path", "/dev/a\nb": "not a path",
	} {
		f := devicePattern(pattern)
		if got := f != nil; got != (want != "") || got && !strings.HasPrefix(f.Text, want) {
			t.Errorf("%s: got %v, want %q", pattern, f, want)
		}
	}
}

func TestLeases_DevicesFor(t *testing.T) {
	l := Leases{Devices: []string{"/dev/fuse"}, Groups: []GroupLimits{{Name: "mpi", Devices: []string{"/dev/cxi*"}}, {Name: "course"}}}
	for group, want := range map[string][]string{"mpi": {"/dev/fuse", "/dev/cxi*"}, "course": {"/dev/fuse"}, "": {"/dev/fuse"}} {
		if diff := cmp.Diff(want, l.DevicesFor([]string{group})); diff != "" {
			t.Errorf("group %q (-want +got):\n%s", group, diff)
		}
	}
}
