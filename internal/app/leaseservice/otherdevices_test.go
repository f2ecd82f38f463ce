package leaseservice

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// The nodes of a GPU are refused under every name: by links, and by their major numbers.
func TestOtherDevices_Find(t *testing.T) {
	root := t.TempDir()
	numbers := map[string]uint64{
		"dev/fuse": unix.Mkdev(10, 229), "dev/infiniband/uverbs0": unix.Mkdev(231, 192), "dev/infiniband/uverbs1": unix.Mkdev(231, 193),
		"dev/dri/renderD128": unix.Mkdev(226, 128), "dev/kfd": unix.Mkdev(234, 0), "dev/copy": unix.Mkdev(234, 0), "dev/shm/tun": unix.Mkdev(10, 200),
	}
	for path := range numbers {
		write(t, root, path)
	}
	write(t, root, "dev/disk")
	for link, to := range map[string]string{"dev/render": "dri/renderD128", "dev/infiniband/gpu": "../kfd", "dev/tun": "shm/tun", "dev/uverbs": "infiniband/uverbs0", "dev/none": "missing"} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	o := otherDevices{root: root, gpus: []uint32{226, 234}, number: func(path string) (uint64, bool) {
		n, ok := numbers[strings.TrimPrefix(path, root+"/")]
		return n, ok
	}}
	const no = ": cannot be opened by devices = in the configuration: "
	for pattern, want := range map[string]struct{ Nodes, Refused []string }{
		"/dev/fuse":          {Nodes: []string{"/dev/fuse"}},
		"/dev/absent":        {},
		"/dev/infiniband/u*": {Nodes: []string{"/dev/infiniband/uverbs0", "/dev/infiniband/uverbs1"}},
		"/dev/uverbs":        {Nodes: []string{"/dev/infiniband/uverbs0"}},
		"/dev/render":        {Refused: []string{"/dev/render" + no + "/dev/dri/renderD128 belongs to a GPU (major number 226)"}},
		"/dev/infiniband/g*": {Refused: []string{"/dev/infiniband/gpu" + no + "/dev/kfd belongs to a GPU (major number 234)"}},
		"/dev/copy":          {Refused: []string{"/dev/copy" + no + "/dev/copy belongs to a GPU (major number 234)"}},
		"/dev/tun":           {Refused: []string{"/dev/tun" + no + "it leads to /dev/shm/tun"}},
		"/dev/disk":          {Refused: []string{"/dev/disk" + no + "it is no character device"}},
	} {
		nodes, refused := o.find([]string{pattern, pattern})
		got := struct{ Nodes, Refused []string }{nodes, refused}
		want.Refused = append(want.Refused, want.Refused...)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", pattern, diff)
		}
	}
}

func write(t *testing.T, root, path string) {
	t.Helper()
	path = filepath.Join(root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
}
